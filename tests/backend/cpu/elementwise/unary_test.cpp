#include "backend/cpu/elementwise/elementwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <numbers>
#include <vector>

namespace binade::backend::cpu_unary_test {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// erfinv by bisection: slow, and beyond doubt.
double erfinv(double x) {
  if (std::abs(x) > 1 || x != x) return nan;
  if (std::abs(x) == 1) return std::copysign(infinity, x);
  double low = 0, high = 6;
  for (int i = 0; i < 200; ++i) {
    const double middle = (low + high) / 2;
    // The complement has digits where erf itself has none left.
    const bool below =
        std::abs(x) < 0.5 ? std::erf(middle) < std::abs(x) : std::erfc(middle) > 1 - std::abs(x);
    (below ? low : high) = middle;
  }
  return std::copysign(low, x);
}

struct Function {
  const char* name;
  Unary op;
  std::function<double(double)> value;
  double ulps;       // allowed for f32
  double low, high;  // where its derivative is tested
  UnaryParams params = {};
  // Absolute error that is no concern: results the formula loses below the normal numbers.
  double flush = 0;
};

const std::vector<Function>& functions() {
  constexpr double tiny = 0x1p-120;
  // exp turns a rounding error of its argument, up to 88 in a tail, into as many of its result.
  constexpr double tail = 2 * 88;
  static const std::vector<Function> all = {
      {"neg", Unary::neg, [](double x) { return -x; }, 0, -3, 3},
      {"abs", Unary::abs, [](double x) { return std::abs(x); }, 0, 0.1, 3},
      {"sign", Unary::sign, [](double x) { return (x > 0) - (x < 0); }, 0, 0.1, 3},
      {"square", Unary::square, [](double x) { return x * x; }, 0.51, -3, 3},
      {"sqrt", Unary::sqrt, [](double x) { return std::sqrt(x); }, 0.51, 0.1, 9},
      {"rsqrt", Unary::rsqrt, [](double x) { return 1 / std::sqrt(x); }, 1.6, 0.1, 9},
      {"reciprocal", Unary::reciprocal, [](double x) { return 1 / x; }, 0.51, 0.2, 9},
      {"exp", Unary::exp, [](double x) { return std::exp(x); }, 2, -3, 3},
      {"expm1", Unary::expm1, [](double x) { return std::expm1(x); }, 4, -3, 3},
      {"log", Unary::log, [](double x) { return std::log(x); }, 2, 0.1, 9},
      {"log2", Unary::log2, [](double x) { return std::log2(x); }, 2.5, 0.1, 9},
      {"log10", Unary::log10, [](double x) { return std::log10(x); }, 2.5, 0.1, 9},
      {"log1p", Unary::log1p, [](double x) { return std::log1p(x); }, 3, -0.5, 9},
      {"sin", Unary::sin, [](double x) { return std::sin(x); }, 3, -7, 7},
      {"cos", Unary::cos, [](double x) { return std::cos(x); }, 3, -7, 7},
      {"tan", Unary::tan, [](double x) { return std::tan(x); }, 2, -1.2, 1.2},
      {"asin", Unary::asin, [](double x) { return std::asin(x); }, 3, -0.9, 0.9},
      {"acos", Unary::acos, [](double x) { return std::acos(x); }, 3, -0.9, 0.9},
      {"atan", Unary::atan, [](double x) { return std::atan(x); }, 3, -9, 9},
      {"sinh", Unary::sinh, [](double x) { return std::sinh(x); }, 3, -3, 3},
      {"cosh", Unary::cosh, [](double x) { return std::cosh(x); }, 3, -3, 3},
      {"tanh", Unary::tanh, [](double x) { return std::tanh(x); }, 4, -3, 3},
      {"erf", Unary::erf, [](double x) { return std::erf(x); }, 4, -3, 3},
      {"erfinv", Unary::erfinv, erfinv, 2, -0.9, 0.9},
      {"sigmoid", Unary::sigmoid, sigmoid, 3, -9, 9, {}, tiny},
      {"relu", Unary::relu, [](double x) { return x < 0 ? 0 : x; }, 0, 0.1, 3},
      {"leaky_relu",
       Unary::leaky_relu,
       [](double x) { return x > 0 ? x : 0.25 * x; },
       1,
       -3,
       -0.1,
       {.a = 0.25}},
      {"gelu",
       Unary::gelu,
       [](double x) { return x * 0.5 * std::erfc(-x / std::numbers::sqrt2); },
       tail,
       -5,
       5,
       {},
       tiny},
      {"gelu_tanh",
       Unary::gelu_tanh,
       [](double x) {
         return x * sigmoid(2 * std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x));
       },
       tail,
       -5,
       5,
       {},
       tiny},
      {"silu", Unary::silu, [](double x) { return x * sigmoid(x); }, 4, -9, 9, {}, tiny},
      {"softplus", Unary::softplus, [](double x) { return x > 30 ? x : std::log1p(std::exp(x)); },
       4, -9, 9},
      {"pow 2.5", Unary::pow, [](double x) { return std::pow(x, 2.5); }, 2, 0.1, 4, {.a = 2.5}},
      {"pow -1", Unary::pow, [](double x) { return 1 / x; }, 1, 0.1, 4, {.a = -1}},
      {"pow 3", Unary::pow, [](double x) { return x * x * x; }, 2, -2, 4, {.a = 3}},
      {"pow 0", Unary::pow, [](double) { return 1; }, 0, -2, 4, {.a = 0}},
      {"pow 0.5", Unary::pow, [](double x) { return std::sqrt(x); }, 1, 0.1, 4, {.a = 0.5}},
      {"clamp",
       Unary::clamp,
       [](double x) { return x != x ? x : std::min(std::max(x, -1.5), 2.0); },
       0,
       -1.4,
       1.9,
       {-1.5, 2}},
      {"scale", Unary::scale, [](double x) { return 2.5 * x; }, 1, -3, 3, {2.5, 0}},
      {"floor", Unary::floor, [](double x) { return std::floor(x); }, 0, 1.1, 1.9},
      {"ceil", Unary::ceil, [](double x) { return std::ceil(x); }, 0, 1.1, 1.9},
      {"round", Unary::round, [](double x) { return std::nearbyint(x); }, 0, 1.6, 2.4},
      {"trunc", Unary::trunc, [](double x) { return std::trunc(x); }, 0, 1.1, 1.9},
      {"is_finite", Unary::is_finite, [](double x) { return std::isfinite(x); }, 0, 1, 2},
      {"is_nan", Unary::is_nan, [](double x) { return x != x; }, 0, 1, 2},
      {"is_inf", Unary::is_inf, [](double x) { return std::isinf(x); }, 0, 1, 2},
      {"logical_not", Unary::logical_not, [](double x) { return x == 0; }, 0, 1, 2},
  };
  return all;
}

// Every 20011th float from one end of the range to the other, and those with a name.
Values all_floats() {
  Values values;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 20011) {
    values.push_back(formats::float_from_bits(static_cast<uint32_t>(bits)));
  }
  for (const double x :
       {0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 88.0, 89.0, 104.0, 1e5, infinity, -infinity, nan}) {
    values.push_back(static_cast<float>(x));
  }
  return values;
}

TEST(CpuElementwise, UnaryIsRightForEveryKindOfFloat) {
  const Values x = all_floats();
  const Tensor in = make({static_cast<int64_t>(x.size())}, DType::f32, x);
  const Tensor out = Tensor::empty_like(in);
  for (const Function& f : functions()) {
    kernels().unary(f.op, f.params, in, out);
    const Values y = read(out);
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = f.value(x[i]);
      const double rounded = static_cast<float>(expected);
      const bool gated = f.op == Unary::gelu || f.op == Unary::gelu_tanh || f.op == Unary::silu;
      if (gated && x[i] == -infinity) continue;  // 0 * infinity, in PyTorch too
      if (rounded != rounded) {
        ASSERT_TRUE(y[i] != y[i]) << f.name << "(" << x[i] << ") is " << y[i] << ", not NaN";
      } else if (std::isinf(rounded) || std::isinf(y[i])) {
        // At the very edge of the range an ulp decides.
        const bool at_edge = std::abs(expected) > 3.4e38 && std::abs(y[i]) > 3.4e38;
        ASSERT_TRUE(rounded == y[i] || at_edge)
            << f.name << "(" << x[i] << ") is " << y[i] << ", not " << rounded;
      } else {
        ASSERT_LE(std::abs(y[i] - expected), f.ulps * ulp_of(expected) + f.flush)
            << f.name << "(" << x[i] << ") is " << y[i] << ", not " << expected;
      }
    }
  }
}

TEST(CpuElementwise, UnarySpecialValues) {
  const auto value = [](Unary op, double x, UnaryParams params = {}) {
    const Tensor in = make({1}, DType::f32, {x}), out = Tensor::empty_like(in);
    kernels().unary(op, params, in, out);
    return read(out)[0];
  };
  EXPECT_EQ(value(Unary::exp, -infinity), 0);
  EXPECT_EQ(value(Unary::exp, 100), infinity);
  EXPECT_EQ(value(Unary::log, 0), -infinity);
  EXPECT_TRUE(std::isnan(value(Unary::log, -1)));
  EXPECT_EQ(value(Unary::log1p, -1), -infinity);
  EXPECT_EQ(value(Unary::log2, 0x1p-140), -140);
  EXPECT_EQ(value(Unary::log2, 0x1p77), 77);
  EXPECT_EQ(value(Unary::tanh, infinity), 1);
  EXPECT_EQ(value(Unary::tanh, -infinity), -1);
  EXPECT_EQ(value(Unary::erf, infinity), 1);
  EXPECT_EQ(value(Unary::sigmoid, -infinity), 0);
  EXPECT_EQ(value(Unary::sigmoid, infinity), 1);
  EXPECT_EQ(value(Unary::softplus, -infinity), 0);
  EXPECT_EQ(value(Unary::softplus, 1000), 1000);
  EXPECT_EQ(value(Unary::gelu, infinity), infinity);
  EXPECT_EQ(value(Unary::sign, 0), 0);
  EXPECT_EQ(value(Unary::sign, nan), 0) << "as in PyTorch";
  EXPECT_TRUE(std::isnan(value(Unary::relu, nan)));
  EXPECT_TRUE(std::isnan(value(Unary::clamp, nan, {0, 1})));
  EXPECT_EQ(value(Unary::round, 2.5), 2);
  EXPECT_EQ(value(Unary::round, 3.5), 4);
  EXPECT_EQ(value(Unary::round, -0.5), 0);
  // Small relative error where 1 + erf would have none of its digits left.
  EXPECT_NEAR(value(Unary::gelu, -5), -5 * 0.5 * std::erfc(5 / std::numbers::sqrt2), 1e-11);
}

TEST(CpuElementwise, UnaryInEveryTypeAndLayout) {
  for (const Function& f : functions()) {
    for (const DType dtype : compute_types) {
      for (const Shape& shape : shapes) {
        Values x(static_cast<size_t>(shape.numel()));
        for (size_t i = 0; i < x.size(); ++i)
          x[i] = f.low + (f.high - f.low) * random::uniform(7, 1, i);
        for (const Arrangement from : arrangements) {
          const Tensor in = make_arranged(shape, dtype, from, x);
          const Tensor out =
              arranged(shape, dtype,
                       from == Arrangement::sliced ? Arrangement::transposed : Arrangement::sliced);
          kernels().unary(f.op, f.params, in, out);
          Values expected = values_of(in), bound(x.size());
          for (size_t i = 0; i < x.size(); ++i) {
            expected[i] = f.value(expected[i]);
            bound[i] = allowed(dtype, f.ulps + 1, expected[i], f.flush);
          }
          expect_within(
              values_of(out), expected, bound,
              std::string(f.name) + " " + std::string(name(dtype)) + " " + to_string(from));
        }
      }
    }
  }
}

double derivative(const Function& f, double x) {
  const double h = 1e-5;
  // Five points: the error is of fourth order.
  return (f.value(x - 2 * h) - 8 * f.value(x - h) + 8 * f.value(x + h) - f.value(x + 2 * h)) /
         (12 * h);
}

TEST(CpuElementwise, DerivativesAreSlopes) {
  constexpr int64_t n = 203;
  for (const Function& f : functions()) {
    for (const DType dtype : compute_types) {
      Values x(n), dy(n);
      for (size_t i = 0; i < n; ++i) {
        x[i] = f.low + (f.high - f.low) * random::uniform(8, 1, i);
        dy[i] = random::normal(8, 2, i);
      }
      const Tensor input = make({n}, dtype, x), incoming = make({n}, dtype, dy);
      Tensor saved = input;
      if (saves_output(f.op)) {
        saved = Tensor::empty({n}, dtype);
        kernels().unary(f.op, f.params, input, saved);
      }
      const Tensor dx = filled({n}, dtype, 2), sum = filled({n}, dtype, 2);
      kernels().unary_backward(f.op, f.params, incoming, saved, {dx});
      kernels().unary_backward(f.op, f.params, incoming, saved, {sum, true});
      Values expected = read(input), bound(n), sum_bound(n);
      const Values g = read(incoming);
      for (size_t i = 0; i < n; ++i) {
        const double at = derivative(f, expected[i]);
        expected[i] = g[i] * at;
        // A saved output was itself rounded to dtype, and how much that matters depends on its
        // derivative.
        const double rounding =
            epsilon(dtype) * (saves_output(f.op) ? 40 : 1) + 20 * sum_epsilon(dtype);
        bound[i] = (rounding + 1e-7) * std::abs(g[i]) * (1 + std::abs(at));
        sum_bound[i] = bound[i] + epsilon(dtype) * (2 + std::abs(expected[i]));
      }
      const std::string what = std::string(f.name) + "' " + std::string(name(dtype));
      expect_within(read(dx), expected, bound, what);
      for (double& e : expected) e += 2;
      expect_within(read(sum), expected, sum_bound, what + " accumulated");
    }
  }
}

TEST(CpuElementwise, DerivativesAtKinks) {
  const auto derivative_at = [](Unary op, double x, UnaryParams params = {}) {
    const Tensor in = make({1}, DType::f32, {x}), dy = filled({1}, DType::f32, 3);
    const Tensor dx = Tensor::empty_like(in);
    kernels().unary_backward(op, params, dy, in, {dx});
    return read(dx)[0] / 3;
  };
  EXPECT_EQ(derivative_at(Unary::relu, 0), 0);
  EXPECT_EQ(derivative_at(Unary::relu, nan), 1);
  EXPECT_EQ(derivative_at(Unary::abs, 0), 0);
  EXPECT_EQ(derivative_at(Unary::abs, -2), -1);
  EXPECT_EQ(derivative_at(Unary::leaky_relu, 0, {.a = 0.5}), 0.5);
  EXPECT_EQ(derivative_at(Unary::abs, nan), 0);
  EXPECT_EQ(derivative_at(Unary::clamp, -1, {-1, 2}), 0);
  EXPECT_EQ(derivative_at(Unary::clamp, 2, {-1, 2}), 0);
  EXPECT_EQ(derivative_at(Unary::clamp, 1.75, {-1, 2}), 1);
  EXPECT_EQ(derivative_at(Unary::clamp, nan, {-1, 2}), 0);
  EXPECT_EQ(derivative_at(Unary::clamp, infinity, {-1, infinity}), 1) << "no bound there";
  EXPECT_EQ(derivative_at(Unary::clamp, 2.25, {-1, 2}), 0);
  EXPECT_EQ(derivative_at(Unary::pow, 0, {.a = 0}), 0);
  EXPECT_EQ(derivative_at(Unary::pow, 0, {.a = 2}), 0);
  EXPECT_EQ(derivative_at(Unary::floor, 1), 0);
  // Far out the curve is straight, and nothing overflows on the way there.
  for (const Unary op : {Unary::gelu, Unary::gelu_tanh, Unary::silu, Unary::softplus}) {
    EXPECT_EQ(derivative_at(op, 1e30), 1) << static_cast<int>(op);
    EXPECT_EQ(derivative_at(op, -1e30), 0) << static_cast<int>(op);
  }
}

}  // namespace
}  // namespace binade::backend::cpu_unary_test
