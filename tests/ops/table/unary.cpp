#include "binade/ops/elementwise/unary.h"

#include <limits>
#include <numbers>

#include "binade/ops/elementwise/activation.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "ops/table/description.h"

namespace binade::optable {
namespace {

using std::numbers::pi;
using Unary = Tensor (*)(const Tensor&);
using RealUnary = std::function<Real(const Real&)>;

Description elementwise(Op op, std::function<Tensor(const Tensor&)> f, const RealUnary& reference,
                        Draw draw = {}) {
  const auto make = [&](const std::string& name, const Shape& shape) {
    return Case{name, {{shape, draw}}, call1(f), reference1([reference](const Array& x) {
                  return map(x, reference);
                })};
  };
  return {.op = op,
          .cases = {make("empty", {0}), make("scalar", {}), make("one", {1, 1}),
                    make("odd", {3, 7}), make("deep", {2, 3, 5}), make("line", {67})},
          .large = make("large", {3, 50021})};
}

// f with a derivative that the op takes from its input or from its output.
Description smooth(Op op, Unary f, double (*value)(double), double (*slope)(double),
                   Draw draw = {}) {
  return elementwise(
      op, f, [=](const Real& x) { return function(x, value, slope); }, draw);
}

Description from_output(Op op, Unary f, double (*value)(double), double (*slope_of_y)(double),
                        Draw draw = {}) {
  return elementwise(
      op, f, [=](const Real& x) { return function_of_output(x, value, slope_of_y); }, draw);
}

// Exact, with no derivative.
Description stepwise(Op op, Unary f, double (*value)(double), Draw draw = {.low = -4, .high = 4}) {
  Description description = elementwise(
      op, f, [=](const Real& x) { return step(value(x.value)); }, draw);
  description.rounds = Rounds::each;
  return description;
}

Description predicate(Op op, Unary f, double (*value)(double), Draw draw = {}) {
  Description description = stepwise(op, f, value, draw);
  description.result = [](DType) { return DType::boolean; };
  return description;
}

// Exact where the slope is 0, 1 or -1.
Description piecewise(Op op, Unary f, double (*slope)(double), Draw draw) {
  Description description = elementwise(
      op, f, [=](const Real& x) { return times_sign(x, slope(x.value)); }, draw);
  description.rounds = Rounds::each;
  return description;
}

double erfinv_value(double x) {
  double low = 0, high = 6;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (std::erf(middle) < std::abs(x) ? low : high) = middle;
  }
  return std::copysign((low + high) / 2, x);
}

Real gelu_erf(const Real& x) { return x * normal_cdf(x); }

Real gelu_tanh(const Real& x) {
  const Real inner = (x + x * x * x * Real(0.044715)) * Real(2 * std::sqrt(2 / pi));
  return x * sigmoid(inner);
}

Real hard_gate(const Real& x) {
  if (std::abs(x.value) >= 3) return step(x.value > 0 ? 1 : 0);
  return x * Real(1.0 / 6) + Real(0.5);
}

Description named(Description description, const char* suffix) {
  for (Case& test : description.cases) test.name += suffix;
  return description;
}

// The cases of `more` join those of `description`.
Description joined(Description description, const Description& more) {
  description.cases.insert(description.cases.end(), more.cases.begin(), more.cases.end());
  return description;
}

Description clamps() {
  const auto clamp_to = [](double low, double high) {
    return elementwise(
        Op::clamp, [=](const Tensor& x) { return clamp(x, low, high); },
        // No gradient at a bound, either.
        [=](const Real& x) {
          return x.value <= low ? Real(low) : x.value >= high ? Real(high) : x;
        });
  };
  Description description =
      joined(clamp_to(-0.75, 1.25),
             named(clamp_to(-1, std::numeric_limits<double>::infinity()), "_below"));
  description.rounds = Rounds::each;
  return description;
}

Description prelus() {
  const auto make = [](const std::string& name, const Shape& x, int64_t channels) {
    return Case{name,
                {{x, {.gap = 0.1}}, {{channels}}},
                call2(prelu),
                reference2([channels](const Array& x, const Array& weight) {
                  Array y(x.shape);
                  int64_t i = 0;
                  for_each_index(x.shape, [&](const Shape& index) {
                    const Real& w = weight[channels == 1 ? 0 : index[1]];
                    y[i] = x[i].value > 0 ? x[i] : x[i] * w;
                    ++i;
                  });
                  return y;
                })};
  };
  return {.op = Op::prelu,
          .cases = {make("empty", {0, 3}, 3), make("one", {1}, 1), make("odd", {3, 5, 7}, 5),
                    make("single_weight", {2, 7}, 1)},
          .large = make("large", {31, 7, 331}, 7),
          .rounds = Rounds::each};
}

// Widening; tests/ops/elementwise/unary_test.cpp has the other pairs of types.
Description casts() {
  Description description = elementwise(
      Op::cast, [](const Tensor& x) { return cast(x, DType::f64); },
      [](const Real& x) { return x; });
  description.rounds = Rounds::each;
  description.result = [](DType) { return DType::f64; };
  return description;
}

}  // namespace

std::vector<Description> unary_ops() {
  const Draw positive{.low = 0.25, .high = 4}, inside{.low = -0.9, .high = 0.9},
      off_zero{.gap = 0.25};
  const auto with_power = [](double e, Draw draw) {
    return named(elementwise(
                     Op::pow, [e](const Tensor& x) { return pow(x, e); },
                     [e](const Real& x) { return exp(log(x) * Real(e)); }, draw),
                 ("_" + std::to_string(e)).c_str());
  };
  std::vector<Description> all = {
      piecewise(Op::neg, binade::neg, [](double) { return -1.0; }, {}),
      piecewise(
          Op::abs, binade::abs, [](double x) { return x > 0 ? 1.0 : -1.0; }, off_zero),
      piecewise(
          Op::relu, binade::relu, [](double x) { return x > 0 ? 1.0 : 0.0; }, off_zero),
      stepwise(Op::sign, binade::sign, [](double x) { return x > 0   ? 1.0
                                                             : x < 0 ? -1.0
                                                                     : 0.0; }),
      stepwise(Op::floor, binade::floor, std::floor),
      stepwise(Op::ceil, binade::ceil, std::ceil),
      stepwise(Op::round, binade::round, std::nearbyint),
      stepwise(Op::trunc, binade::trunc, std::trunc),
      predicate(Op::is_finite, binade::is_finite,
                [](double x) { return std::isfinite(x) ? 1.0 : 0.0; }),
      predicate(Op::is_nan, binade::is_nan, [](double x) { return std::isnan(x) ? 1.0 : 0.0; }),
      predicate(Op::is_inf, binade::is_inf, [](double x) { return std::isinf(x) ? 1.0 : 0.0; }),
      predicate(Op::logical_not, binade::logical_not, [](double x) { return x == 0 ? 1.0 : 0.0; }),
      smooth(
          Op::square, binade::square, [](double x) { return x * x; },
          [](double x) { return 2 * x; }),
      from_output(
          Op::sqrt, binade::sqrt, std::sqrt, [](double y) { return 0.5 / y; }, positive),
      from_output(
          Op::rsqrt, binade::rsqrt, [](double x) { return 1 / std::sqrt(x); },
          [](double y) { return -0.5 * y * y * y; }, positive),
      from_output(
          Op::reciprocal, binade::reciprocal, [](double x) { return 1 / x; },
          [](double y) { return -y * y; }, off_zero),
      from_output(Op::exp, binade::exp, std::exp, [](double y) { return y; }),
      smooth(Op::expm1, binade::expm1, std::expm1, std::exp),
      smooth(
          Op::log, binade::log, std::log, [](double x) { return 1 / x; }, positive),
      smooth(
          Op::log2, binade::log2, std::log2, [](double x) { return std::numbers::log2e / x; },
          positive),
      smooth(
          Op::log10, binade::log10, std::log10, [](double x) { return std::numbers::log10e / x; },
          positive),
      smooth(Op::log1p, binade::log1p, std::log1p, [](double x) { return 1 / (1 + x); },
             {.low = -0.75, .high = 4}),
      smooth(Op::sin, binade::sin, std::sin, std::cos, {.low = -6, .high = 6}),
      smooth(Op::cos, binade::cos, std::cos, [](double x) { return -std::sin(x); },
             {.low = -6, .high = 6}),
      from_output(Op::tan, binade::tan, std::tan, [](double y) { return 1 + y * y; },
                  {.low = -1.2, .high = 1.2}),
      smooth(
          Op::asin, binade::asin, std::asin, [](double x) { return 1 / std::sqrt(1 - x * x); },
          inside),
      smooth(
          Op::acos, binade::acos, std::acos, [](double x) { return -1 / std::sqrt(1 - x * x); },
          inside),
      smooth(Op::atan, binade::atan, std::atan, [](double x) { return 1 / (1 + x * x); }),
      smooth(Op::sinh, binade::sinh, std::sinh, std::cosh),
      smooth(Op::cosh, binade::cosh, std::cosh, std::sinh),
      from_output(Op::tanh, binade::tanh, std::tanh, [](double y) { return (1 - y) * (1 + y); }),
      smooth(Op::erf, binade::erf, std::erf,
             [](double x) { return 2 * std::numbers::inv_sqrtpi * std::exp(-x * x); }),
      from_output(
          Op::erfinv, binade::erfinv, erfinv_value,
          [](double y) { return 0.5 / std::numbers::inv_sqrtpi * std::exp(y * y); }, inside),
      elementwise(Op::sigmoid, binade::sigmoid, [](const Real& x) { return sigmoid(x); },
                  {.low = -4, .high = 4}),
      elementwise(
          Op::leaky_relu, [](const Tensor& x) { return leaky_relu(x, 0.1); },
          [](const Real& x) { return x.value > 0 ? x : x * Real(0.1); }, off_zero),
      prelus(),
      joined(elementwise(Op::gelu, [](const Tensor& x) { return gelu(x); }, gelu_erf,
                         {.low = -3, .high = 3}),
             named(elementwise(Op::gelu, [](const Tensor& x) { return gelu(x, Gelu::tanh); },
                               gelu_tanh, {.low = -3, .high = 3}),
                   "_tanh")),
      elementwise(Op::silu, binade::silu, [](const Real& x) { return x * sigmoid(x); },
                  {.low = -4, .high = 4}),
      elementwise(Op::softplus, binade::softplus, [](const Real& x) { return softplus(x); },
                  {.low = -6, .high = 6}),
      elementwise(
          Op::elu, [](const Tensor& x) { return elu(x, 1.5); },
          [](const Real& x) {
            if (x.value > 0) return x;
            return function(x, std::expm1, std::exp) * Real(1.5);
          },
          off_zero),
      elementwise(Op::mish, binade::mish,
                  [](const Real& x) {
                    return x * function_of_output(softplus(x), std::tanh,
                                                  [](double y) { return (1 - y) * (1 + y); });
                  },
                  {.low = -4, .high = 4}),
      elementwise(Op::hardsigmoid, binade::hardsigmoid, hard_gate, {.low = -5, .high = 5}),
      elementwise(Op::hardswish, binade::hardswish,
                  [](const Real& x) {
                    return x.value > 3 ? x : x.value < -3 ? times_sign(x, 0) : x * hard_gate(x);
                  },
                  {.low = -5, .high = 5}),
      clamps(),
      casts(),
  };
  for (const double e : {2.5, -1.0, 3.0, 0.5}) all.push_back(with_power(e, positive));
  return all;
}

}  // namespace binade::optable
