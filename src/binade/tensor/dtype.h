#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "binade/base/error.h"
#include "binade/formats/number.h"

namespace binade {

// The element type of a tensor. FP8 formats are types of their own, not bytes.
enum class DType : uint8_t { f64, f32, f16, bf16, e4m3, e5m2, i64, i32, u8, boolean };

inline constexpr DType all_dtypes[] = {DType::f64,  DType::f32,    DType::f16, DType::bf16,
                                       DType::e4m3, DType::e5m2,   DType::i64, DType::i32,
                                       DType::u8,   DType::boolean};

// A C++ type as a value, for dispatch lambdas:
// [](auto tag) { using T = typename decltype(tag)::type; }
template <class T>
struct TypeTag {
  using type = T;
};

// Calls f with the TypeTag of `dtype`'s C++ type.
template <class F>
constexpr decltype(auto) dispatch(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f64:
      return f(TypeTag<double>{});
    case DType::f32:
      return f(TypeTag<float>{});
    case DType::f16:
      return f(TypeTag<f16>{});
    case DType::bf16:
      return f(TypeTag<bf16>{});
    case DType::e4m3:
      return f(TypeTag<e4m3>{});
    case DType::e5m2:
      return f(TypeTag<e5m2>{});
    case DType::i64:
      return f(TypeTag<int64_t>{});
    case DType::i32:
      return f(TypeTag<int32_t>{});
    case DType::u8:
      return f(TypeTag<uint8_t>{});
    case DType::boolean:
      return f(TypeTag<bool>{});
  }
  fail("dispatch", {.argument = "dtype", .found = "a value outside DType"});
}

// dispatch() for f64, f32, f16 and bf16, the types kernels compute in. `op` names the caller.
template <class F>
constexpr decltype(auto) dispatch_floating(std::string_view op, DType dtype, F&& f);

// DType of a C++ type, at compile time.
template <class T>
inline constexpr DType dtype_of = [] {
  static_assert(sizeof(T) == 0, "no DType for this type");
  return DType::f32;
}();
template <>
inline constexpr DType dtype_of<double> = DType::f64;
template <>
inline constexpr DType dtype_of<float> = DType::f32;
template <>
inline constexpr DType dtype_of<f16> = DType::f16;
template <>
inline constexpr DType dtype_of<bf16> = DType::bf16;
template <>
inline constexpr DType dtype_of<e4m3> = DType::e4m3;
template <>
inline constexpr DType dtype_of<e5m2> = DType::e5m2;
template <>
inline constexpr DType dtype_of<int64_t> = DType::i64;
template <>
inline constexpr DType dtype_of<int32_t> = DType::i32;
template <>
inline constexpr DType dtype_of<uint8_t> = DType::u8;
template <>
inline constexpr DType dtype_of<bool> = DType::boolean;

constexpr size_t size_of(DType dtype) {
  return dispatch(dtype, [](auto tag) { return sizeof(typename decltype(tag)::type); });
}

constexpr bool is_quantized(DType dtype) { return dtype == DType::e4m3 || dtype == DType::e5m2; }

// Floating-point types.
constexpr bool is_floating(DType dtype) { return dtype <= DType::e5m2; }

// The floating types ops compute in: f64, f32, f16, bf16. FP8 occurs only inside quantized tensors.
constexpr bool is_compute(DType dtype) { return dtype <= DType::bf16; }

// The type that sums, statistics and gradients of a type's elements are kept in: f64 for f64, else
// f32.
constexpr DType accumulation_type(DType dtype) {
  return dtype == DType::f64 ? DType::f64 : DType::f32;
}

// "bf16", "i64", ...
std::string_view name(DType dtype);

// The DType named `text`. Accepts aliases such as fp32 and bfloat16; fails on anything else.
DType parse_dtype(std::string_view text);

// Type promotion as in PyTorch: the wider floating type wins, f16 with bf16 gives f32, and floats
// win over integers.
DType promote(DType a, DType b);

// The distance from 1 to the next larger number of a floating type.
double epsilon(DType dtype);

template <class F>
constexpr decltype(auto) dispatch_floating(std::string_view op, DType dtype, F&& f) {
  switch (dtype) {
    case DType::f64:
      return f(TypeTag<double>{});
    case DType::f32:
      return f(TypeTag<float>{});
    case DType::f16:
      return f(TypeTag<f16>{});
    case DType::bf16:
      return f(TypeTag<bf16>{});
    default:
      fail(op, {.argument = "dtype",
                .expected = "f64, f32, f16 or bf16",
                .found = std::string(name(dtype))});
  }
}

}  // namespace binade
