#include "binade/backend/cpu/gemm/convert.h"

#include <algorithm>
#include <array>
#include <string>
#include <type_traits>

#include "binade/backend/cast.h"
#include "binade/base/error.h"
#include "binade/formats/convert.h"
#include "binade/formats/number.h"

namespace binade::backend::cpu {
namespace {

// Calls body with a value of the C++ type of `dtype`. Only floating types are instantiated.
template <class Body>
void with_type(DType dtype, Body body) {
  switch (dtype) {
    case DType::f64:
      return body(double{});
    case DType::f32:
      return body(float{});
    case DType::f16:
      return body(f16{});
    case DType::bf16:
      return body(bf16{});
    case DType::e4m3:
      return body(e4m3{});
    case DType::e5m2:
      return body(e5m2{});
    default:
      fail("gemm",
           {.argument = "dtype", .expected = "a floating type", .found = std::string(name(dtype))});
  }
}

// The values of an 8-bit type's codes, as bits of bf16.
template <class T>
constexpr std::array<uint16_t, 256> bf16_codes() {
  std::array<uint16_t, 256> table{};
  for (int code = 0; code < 256; ++code) {
    const float value = T::from_bits(static_cast<uint8_t>(code));
    table[code] = static_cast<uint16_t>(formats::float_bits(value) >> 16);
  }
  return table;
}

template <class T>
void look_up(const void* data, int64_t stride, int64_t count, uint16_t* out) {
  static constexpr std::array<uint16_t, 256> table = bf16_codes<T>();
  const uint8_t* codes = static_cast<const uint8_t*>(data);
  for (int64_t i = 0; i < count; ++i) out[i] = table[codes[i * stride]];
}

// Whether formats/convert.h converts arrays between T and float.
template <class T>
constexpr bool is_small = !std::is_floating_point_v<T>;

template <class Out>
void read_as(const void* data, DType dtype, int64_t stride, int64_t count, Out* out) {
  with_type(dtype, [&](auto tag) {
    using T = decltype(tag);
    const auto* in = static_cast<const T*>(data);
    if (stride == 1) {
      if constexpr (std::is_same_v<Out, T>) {
        std::copy_n(in, count, out);
        return;
      } else if constexpr (std::is_same_v<Out, float> && is_small<T>) {
        return formats::widen(in, out, static_cast<size_t>(count));
      }
    }
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<Out>(in[i * stride]);
  });
}

template <class In>
void write_as(const In* in, int64_t count, void* data, DType dtype, int64_t stride) {
  with_type(dtype, [&](auto tag) {
    using T = decltype(tag);
    auto* out = static_cast<T*>(data);
    if (stride == 1) {
      if constexpr (std::is_same_v<In, T>) {
        std::copy_n(in, count, out);
        return;
      } else if constexpr (std::is_same_v<In, float> && is_small<T>) {
        return formats::narrow(in, out, static_cast<size_t>(count));
      }
    }
    for (int64_t i = 0; i < count; ++i) out[i * stride] = cast<T>(in[i]);
  });
}

}  // namespace

void read_elements(const void* data, DType dtype, int64_t stride, int64_t count, float* out) {
  read_as(data, dtype, stride, count, out);
}

void read_elements(const void* data, DType dtype, int64_t stride, int64_t count, double* out) {
  read_as(data, dtype, stride, count, out);
}

void read_elements(const void* data, DType dtype, int64_t stride, int64_t count, uint16_t* out) {
  switch (dtype) {
    case DType::bf16: {
      const uint16_t* in = static_cast<const uint16_t*>(data);
      if (stride == 1) {
        std::copy_n(in, count, out);  // data of no elements may be null
      } else {
        for (int64_t i = 0; i < count; ++i) out[i] = in[i * stride];
      }
      return;
    }
    case DType::e4m3:
      return look_up<e4m3>(data, stride, count, out);
    case DType::e5m2:
      return look_up<e5m2>(data, stride, count, out);
    default:
      fail("gemm", {.argument = "dtype",
                    .expected = "one that bf16 holds exactly",
                    .found = std::string(name(dtype))});
  }
}

void write_elements(const float* in, int64_t count, void* data, DType dtype, int64_t stride) {
  write_as(in, count, data, dtype, stride);
}

void write_elements(const double* in, int64_t count, void* data, DType dtype, int64_t stride) {
  write_as(in, count, data, dtype, stride);
}

}  // namespace binade::backend::cpu
