#pragma once

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "support/tensors.h"

// Every family refuses what it cannot compute with an Error that names the op and the argument.
namespace binade::bad_input {

inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr double nan = std::numeric_limits<double>::quiet_NaN();
inline constexpr int64_t huge = int64_t{1} << 62;

struct Bad {
  const char* op;
  const char* argument;
  void (*call)();
};

inline Tensor f(const Shape& shape) { return zeros(shape, DType::f32); }
inline Tensor h(const Shape& shape) { return zeros(shape, DType::f16); }
inline Tensor d(const Shape& shape) { return zeros(shape, DType::f64); }
inline Tensor i(const Shape& shape, double value = 0) { return full(shape, value, DType::i64); }
inline Tensor b(const Shape& shape) { return zeros(shape, DType::boolean); }
inline Tensor m(const Shape& shape, DType dtype = DType::f32) {
  return Tensor::empty(shape, dtype, Device::meta());
}
inline Tensor fp8(const Shape& shape) { return Tensor::empty(shape, DType::e4m3); }
inline const Tensor none;

inline void expect_refused(const std::vector<Bad>& cases) {
  for (const Bad& bad : cases) {
    try {
      bad.call();
      ADD_FAILURE() << bad.op << " accepted a bad " << bad.argument;
    } catch (const Error& error) {
      EXPECT_EQ(error.op(), bad.op) << error.what();
      EXPECT_EQ(error.facts().argument, bad.argument) << error.what();
      EXPECT_FALSE(error.facts().expected.empty()) << error.what();
      EXPECT_FALSE(error.facts().found.empty()) << error.what();
    }
  }
}

}  // namespace binade::bad_input
