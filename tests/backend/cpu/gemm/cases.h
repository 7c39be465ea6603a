#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "binade/backend/cpu/gemm/gemm.h"
#include "binade/backend/cpu/gemm/kernel.h"
#include "binade/formats/number.h"

// Matmuls described by their shape, types, layouts and epilogue, and checked against f64.
namespace binade::backend::cpu::gemm_cases {

inline constexpr DType floating_types[] = {DType::f64,  DType::f32,  DType::f16,
                                           DType::bf16, DType::e4m3, DType::e5m2};

inline const formats::Format& spec_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return formats::spec::f64;
    case DType::f16:
      return formats::spec::f16;
    case DType::bf16:
      return formats::spec::bf16;
    case DType::e4m3:
      return formats::spec::e4m3;
    case DType::e5m2:
      return formats::spec::e5m2;
    default:
      return formats::spec::f32;
  }
}

template <class F>
auto with_type(DType dtype, F f) {
  switch (dtype) {
    case DType::f64:
      return f(double{});
    case DType::f16:
      return f(f16{});
    case DType::bf16:
      return f(bf16{});
    case DType::e4m3:
      return f(e4m3{});
    case DType::e5m2:
      return f(e5m2{});
    default:
      return f(float{});
  }
}

// Numbers from a fixed sequence; small enough for every format.
class Numbers {
 public:
  explicit Numbers(uint32_t seed) : state_(seed * 2654435761u + 1) {}

  uint32_t bits() {
    state_ = state_ * 1664525u + 1013904223u;
    return state_ >> 8;
  }
  int64_t below(int64_t n) { return bits() % n; }
  double uniform() { return static_cast<double>(bits()) / (1 << 23) - 1; }
  template <class T, size_t n>
  T pick(const T (&options)[n]) {
    return options[below(n)];
  }

 private:
  uint32_t state_;
};

// A matrix of any type, dense or with gaps.
struct Matrix {
  DType dtype = DType::f32;
  int64_t rows = 0, columns = 0, row_stride = 0, col_stride = 0;
  std::vector<char> bytes;

  Matrix(DType dtype, int64_t rows, int64_t columns, int layout = 0)
      : dtype(dtype), rows(rows), columns(columns) {
    row_stride = columns;
    col_stride = 1;
    if (layout == 1) row_stride = 1, col_stride = rows;             // transposed
    if (layout == 2) row_stride = columns + 3;                      // padded
    if (layout == 3) row_stride = 2 * columns + 1, col_stride = 2;  // neither stride is 1
    if (layout == 4) row_stride = 1, col_stride = rows + 5;         // transposed and padded
    const int64_t last = std::max<int64_t>(rows - 1, 0) * row_stride +
                         std::max<int64_t>(columns - 1, 0) * col_stride;
    bytes.resize(static_cast<size_t>(last + 1) * size_of(dtype));
  }

  char* at(int64_t i, int64_t j) {
    return static_cast<char*>(advance(bytes.data(), dtype, i * row_stride + j * col_stride));
  }
  double get(int64_t i, int64_t j) {
    return with_type(dtype, [&](auto tag) {
      std::memcpy(&tag, at(i, j), sizeof tag);
      return static_cast<double>(tag);
    });
  }
  void set(int64_t i, int64_t j, double value) {
    with_type(dtype, [&](auto tag) {
      using T = decltype(tag);
      if constexpr (sizeof(T) == 8) {
        tag = value;
      } else {
        tag = static_cast<T>(static_cast<float>(value));
      }
      std::memcpy(at(i, j), &tag, sizeof tag);
    });
  }
  void fill(Numbers& numbers) {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) set(i, j, numbers.uniform());
    }
  }
  void fill_nan() {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) set(i, j, std::numeric_limits<double>::quiet_NaN());
    }
  }
  // Row after row, or column after column.
  std::vector<double> values(bool round_tf32, bool by_columns) {
    std::vector<double> result;
    result.reserve(rows * columns);
    for (int64_t i = 0; i < (by_columns ? columns : rows); ++i) {
      for (int64_t j = 0; j < (by_columns ? rows : columns); ++j) {
        const double value = by_columns ? get(j, i) : get(i, j);
        result.push_back(round_tf32 ? formats::round_tf32(static_cast<float>(value)) : value);
      }
    }
    return result;
  }
  InputMatrix input() const { return {bytes.data(), dtype, row_stride, col_stride}; }
  OutputMatrix output() { return {bytes.data(), dtype, row_stride, col_stride}; }
  // As an optional argument of an epilogue: [1, rows, columns].
  TensorView view() {
    return {bytes.data(), dtype, {1, rows, columns}, {rows * row_stride, row_stride, 1}, true};
  }
};

inline double activate(Activation activation, double x) {
  switch (activation) {
    case Activation::relu:
      return x > 0 ? x : 0;
    case Activation::gelu:
      return 0.5 * x * std::erfc(-x * std::sqrt(0.5));
    case Activation::gelu_tanh:
      // (1 + tanh u) / 2 = 1 / (1 + exp(-2u)), which does not cancel where x is far below 0.
      return x / (1 + std::exp(-2 * std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
    case Activation::silu:
      return x / (1 + std::exp(-x));
    default:
      return x;
  }
}

struct Case {
  int64_t m, n, k;
  DType a = DType::f32, b = DType::f32, c = DType::f32;
  int a_layout = 0, b_layout = 0, c_layout = 0;
  float alpha = 1, beta = 0;
  bool bias = false, pre = false, tf32 = false;
  Activation activation = Activation::none;
  uint32_t seed = 1;

  std::string describe() const {
    const auto name = [](DType dtype) { return std::string(spec_of(dtype).name); };
    return std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) + " " + name(a) +
           "*" + name(b) + "->" + name(c) + " layouts " + std::to_string(a_layout) +
           std::to_string(b_layout) + std::to_string(c_layout) + " alpha " + std::to_string(alpha) +
           " beta " + std::to_string(beta) + " bias " + std::to_string(bias) + " pre " +
           std::to_string(pre) + " tf32 " + std::to_string(tf32) + " act " +
           std::to_string(static_cast<int>(activation)) + " on " +
           std::string(current_level().name);
  }
};

// The operands of a case and its results.
struct GemmRun {
  Matrix a, b, c, old, bias, pre;

  explicit GemmRun(const Case& t)
      : a(t.a, t.m, t.k, t.a_layout),
        b(t.b, t.k, t.n, t.b_layout),
        c(t.c, t.m, t.n, t.c_layout),
        old(c),
        bias(t.a == DType::f64 ? DType::f32 : t.a, 1, t.n),
        pre(t.c, t.m, t.n, 2) {
    Numbers numbers(t.seed);
    a.fill(numbers);
    b.fill(numbers);
    bias.fill(numbers);
    if (t.beta != 0) {
      c.fill(numbers);
    } else {
      c.fill_nan();
    }
    old = c;
    gemm({.m = t.m,
          .n = t.n,
          .k = t.k,
          .a = a.input(),
          .b = b.input(),
          .c = c.output(),
          .epilogue = {.alpha = t.alpha,
                       .beta = t.beta,
                       .bias = t.bias ? bias.view() : TensorView(),
                       .activation = t.activation,
                       .pre_activation = t.pre ? pre.view() : TensorView(),
                       .tf32 = t.tf32}});
  }
};

// How far an output may be from the exact value: the sum's rounding, at most k + 2 of the
// accumulator's epsilons of the magnitudes added (docs: gemm.h), passed on by an activation whose
// derivative stays under 1.13 and that is itself good to a few epsilons, then the output's
// rounding. An output of 16 bits is rounded before the activation as well.
inline void check(const Case& t) {
  SCOPED_TRACE(t.describe());
  GemmRun run(t);
  const bool wide = t.a == DType::f64 || t.b == DType::f64;
  const double sum_epsilon = wide ? formats::spec::f64.epsilon() : formats::spec::f32.epsilon();
  const formats::Format& out = spec_of(t.c);
  // gemm rounds to an output format by way of f32 where it summed in f64.
  const double out_epsilon = std::max(out.epsilon(), sum_epsilon);
  const auto limit = [&](double value, double magnitude) {
    return 1.13 * (static_cast<double>(t.k) + 4) * sum_epsilon * magnitude +
           8 * sum_epsilon * std::abs(value) + 0.51 * out_epsilon * std::abs(value) +
           0.51 * out.min_subnormal();
  };
  const bool round = t.tf32 && !wide;
  const std::vector<double> a = run.a.values(round, false), b = run.b.values(round, true);
  for (int64_t i = 0; i < t.m; ++i) {
    for (int64_t j = 0; j < t.n; ++j) {
      double sum = 0, magnitude = 0;
      for (int64_t p = 0; p < t.k; ++p) {
        const double term = a[i * t.k + p] * b[j * t.k + p];
        sum += term;
        magnitude += std::abs(term);
      }
      double value = t.alpha * sum;
      magnitude *= std::abs(t.alpha);
      if (t.beta != 0) {
        value += t.beta * run.old.get(i, j);
        magnitude += std::abs(t.beta * run.old.get(i, j));
      }
      if (t.bias) {
        value += run.bias.get(0, j);
        magnitude += std::abs(run.bias.get(0, j));
      }
      if (t.pre) {
        ASSERT_NEAR(run.pre.get(i, j), value, limit(value, magnitude))
            << "pre at " << i << ", " << j;
      }
      const double result = activate(t.activation, value);
      const bool narrow = t.activation != Activation::none && size_of(t.c) == 2;
      const double before = narrow ? 1.13 * limit(value, 0) : 0;
      ASSERT_NEAR(run.c.get(i, j), result, limit(result, magnitude) + before)
          << "at " << i << ", " << j;
    }
  }
}

}  // namespace binade::backend::cpu::gemm_cases
