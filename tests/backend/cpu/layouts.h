#pragma once

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "backend/cpu/values.h"

// The same elements laid out in memory in every way a kernel may meet them.
namespace binade::backend {

enum class Arrangement { dense, transposed, sliced, reversed };

inline constexpr Arrangement arrangements[] = {Arrangement::dense, Arrangement::transposed,
                                               Arrangement::sliced, Arrangement::reversed};

inline std::string to_string(Arrangement arrangement) {
  switch (arrangement) {
    case Arrangement::dense:
      return "dense";
    case Arrangement::transposed:
      return "transposed";
    case Arrangement::sliced:
      return "sliced";
    default:
      return "reversed";
  }
}

// An uninitialised tensor of `shape`: row-major; with its axes in opposite order in memory; as a
// part of a larger one, with gaps along every axis; or with every axis running backwards.
inline Tensor arranged(const Shape& shape, DType dtype, Arrangement arrangement) {
  const int rank = shape.rank();
  if (arrangement == Arrangement::dense || shape.numel() == 0) return Tensor::empty(shape, dtype);
  Strides strides = dense_strides(shape);
  int64_t offset = 0, size = shape.numel();
  if (arrangement == Arrangement::transposed) {
    int64_t stride = 1;
    for (int axis = 0; axis < rank; ++axis) {
      strides[axis] = stride;
      stride *= shape[axis];
    }
  } else if (arrangement == Arrangement::sliced) {
    offset = 3;
    int64_t stride = 2;
    for (int axis = rank - 1; axis >= 0; --axis) {
      strides[axis] = stride;
      stride *= shape[axis] + 1;
    }
    size = stride + offset;
  } else {
    for (int64_t& stride : strides) stride = -stride;
    offset = size - 1;
  }
  return Tensor::empty({size}, dtype).strided(shape, strides, offset);
}

inline int64_t offset_of(const Tensor& x, int64_t index) {
  int64_t offset = 0;
  for (int axis = x.rank() - 1; axis >= 0; --axis) {
    offset += index % x.shape()[axis] * x.strides()[axis];
    index /= x.shape()[axis];
  }
  return offset;
}

// Elements in row-major order, whatever the strides.
inline Values values_of(const Tensor& x) {
  Values values(static_cast<size_t>(x.numel()));
  dispatch(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* data = static_cast<const T*>(x.raw_data());
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<double>(data[offset_of(x, static_cast<int64_t>(i))]);
    }
  });
  return values;
}

inline void set_values(const Tensor& x, const Values& values) {
  dispatch(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* data = static_cast<T*>(x.raw_data());
    for (size_t i = 0; i < values.size(); ++i) {
      T& element = data[offset_of(x, static_cast<int64_t>(i))];
      if constexpr (sizeof(T) <= 2 && is_floating(dtype_of<T>)) {
        element = T(static_cast<float>(values[i]));
      } else {
        element = static_cast<T>(values[i]);
      }
    }
  });
}

inline Tensor make_arranged(const Shape& shape, DType dtype, Arrangement arrangement,
                            const Values& values) {
  Tensor x = arranged(shape, dtype, arrangement);
  set_values(x, values);
  return x;
}

// n numbers that every type but bool and u8 holds exactly: halves from -4 to 4 (integers: from -8
// to 8).
inline Values plain_numbers(DType dtype, int64_t n, uint64_t seed) {
  Values values(static_cast<size_t>(n));
  for (size_t i = 0; i < values.size(); ++i) {
    const double number = static_cast<double>(random::bits(seed, 2, i) % 17) - 8;
    values[i] = is_floating(dtype) ? number / 2 : number;
    if (dtype == DType::u8) values[i] = std::abs(number);
    if (dtype == DType::boolean) values[i] = number > 0 ? 1 : 0;
  }
  return values;
}

// Equal, NaN being equal to NaN.
inline void expect_equal(const Values& found, const Values& expected, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t i = 0; i < found.size(); ++i) {
    const bool both_nan = found[i] != found[i] && expected[i] != expected[i];
    ASSERT_TRUE(both_nan || found[i] == expected[i])
        << what << "[" << i << "]: expected " << expected[i] << ", found " << found[i];
  }
}

// Calls f with 1, 2 and 8 threads and expects the same bits of what it returns.
template <class F>
void expect_threads_do_not_matter(const std::string& what, F&& f) {
  const ThreadCount one(1);
  const Tensor expected = f();
  for (const int count : {2, 8}) {
    const ThreadCount more(count);
    expect_same_bits(f(), expected, what + " with " + std::to_string(count) + " threads");
  }
}

}  // namespace binade::backend
