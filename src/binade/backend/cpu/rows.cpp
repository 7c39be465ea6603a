#include "binade/backend/cpu/rows.h"

#include <algorithm>
#include <cstring>

#include "binade/formats/convert.h"

namespace binade::backend::cpu {
namespace {

constexpr int64_t chunk = 256;

// Element by element, for the pairs of types that have no bulk conversion.
template <class T>
void convert_slowly(const TensorView& x, int64_t offset, int64_t n, T* out) {
  dispatch(x.dtype, [&](auto tag) {
    using S = typename decltype(tag)::type;
    const S* in = x.as<S>() + offset;
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(in[i]);
  });
}

void write(const float* values, const TensorView& y, int64_t offset, int64_t n) {
  const auto count = static_cast<size_t>(n);
  dispatch(y.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* out = y.as<T>() + offset;
    if constexpr (std::is_same_v<T, float>) {
      if (out != values) std::memcpy(out, values, count * sizeof(float));
    } else if constexpr (sizeof(T) <= 2 && is_floating(dtype_of<T>)) {
      formats::narrow(values, out, count);
    } else {
      for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(values[i]);
    }
  });
}

void write(const double* values, const TensorView& y, int64_t offset, int64_t n) {
  dispatch(y.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* out = y.as<T>() + offset;
    for (int64_t i = 0; i < n; ++i) {
      if constexpr (sizeof(T) <= 2 && is_floating(dtype_of<T>)) {
        out[i] = T(static_cast<float>(values[i]));
      } else {
        out[i] = static_cast<T>(values[i]);
      }
    }
  });
}

template <class T>
void store_any(const T* values, const TensorView& y, int64_t offset, int64_t n, bool accumulate) {
  if (!accumulate) {
    write(values, y, offset, n);
    return;
  }
  T present[chunk], sum[chunk];
  for (int64_t at = 0; at < n; at += chunk) {
    const int64_t count = std::min(chunk, n - at);
    const T* old = load(y, offset + at, count, present);
    for (int64_t i = 0; i < count; ++i) sum[i] = old[i] + values[at + i];
    write(sum, y, offset + at, count);
  }
}

}  // namespace

const float* load(const TensorView& x, int64_t offset, int64_t n, float* scratch) {
  const auto count = static_cast<size_t>(n);
  switch (x.dtype) {
    case DType::f32:
      return x.as<float>() + offset;
    case DType::f16:
      formats::widen(x.as<f16>() + offset, scratch, count);
      return scratch;
    case DType::bf16:
      formats::widen(x.as<bf16>() + offset, scratch, count);
      return scratch;
    case DType::e4m3:
      formats::widen(x.as<e4m3>() + offset, scratch, count);
      return scratch;
    case DType::e5m2:
      formats::widen(x.as<e5m2>() + offset, scratch, count);
      return scratch;
    default:
      convert_slowly(x, offset, n, scratch);
      return scratch;
  }
}

const double* load(const TensorView& x, int64_t offset, int64_t n, double* scratch) {
  if (x.dtype == DType::f64) return x.as<double>() + offset;
  convert_slowly(x, offset, n, scratch);
  return scratch;
}

void store(const float* values, const TensorView& y, int64_t offset, int64_t n, bool accumulate) {
  store_any(values, y, offset, n, accumulate);
}

void store(const double* values, const TensorView& y, int64_t offset, int64_t n, bool accumulate) {
  store_any(values, y, offset, n, accumulate);
}

}  // namespace binade::backend::cpu
