#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "binade/base/random.h"
#include "binade/tensor/tensor.h"
#include "support/thread_count.h"

// Tensors as vectors of double and back, for references written in double.
namespace binade::backend {

using Values = std::vector<double>;

inline constexpr DType compute_types[] = {DType::f64, DType::f32, DType::f16, DType::bf16};

// Rounding of one operation in the type that kernels sum in.
inline double sum_epsilon(DType dtype) { return epsilon(dtype == DType::f64 ? dtype : DType::f32); }

// Half a unit in the last place of `value`, as stored in `dtype`: what rounding a result may cost.
inline double storage_error(DType dtype, double value) {
  const double least_step = dtype == DType::f16 ? 0x1p-24 : 0x1p-126;
  return 0.5 * epsilon(dtype) * std::abs(value) + least_step;
}

inline Values read(const Tensor& x) {
  Values values(static_cast<size_t>(x.numel()));
  dispatch(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(x.data<T>()[i]);
  });
  return values;
}

inline Tensor make(const Shape& shape, DType dtype, const Values& values) {
  Tensor x = Tensor::empty(shape, dtype);
  dispatch(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (size_t i = 0; i < values.size(); ++i) {
      if constexpr (sizeof(T) <= 2 && is_floating(dtype_of<T>)) {
        x.mutable_data<T>()[i] = T(static_cast<float>(values[i]));
      } else {
        x.mutable_data<T>()[i] = static_cast<T>(values[i]);
      }
    }
  });
  return x;
}

inline Tensor filled(const Shape& shape, DType dtype, double value) {
  return make(shape, dtype, Values(static_cast<size_t>(shape.numel()), value));
}

// Standard normal numbers, rounded to dtype.
inline Tensor noise(const Shape& shape, DType dtype, uint64_t seed) {
  Values values(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = random::normal(seed, 1, i);
  return make(shape, dtype, values);
}

// |found - expected| <= bound, element by element; reports the worst.
inline void expect_within(const Values& found, const Values& expected, const Values& bound,
                          const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_LE(std::abs(found[i] - expected[i]), bound[i])
        << what << "[" << i << "]: expected " << expected[i] << ", found " << found[i];
  }
}

inline void expect_same_bits(const Tensor& a, const Tensor& b, const std::string& what) {
  ASSERT_EQ(a.bytes(), b.bytes());
  if (a.bytes() == 0) return;
  EXPECT_EQ(std::memcmp(a.raw_data(), b.raw_data(), static_cast<size_t>(a.bytes())), 0) << what;
}

}  // namespace binade::backend
