#include <cmath>
#include <limits>
#include <numbers>

#include "binade/backend/cpu/elementwise/blocks.h"
#include "binade/backend/unary_dispatch.h"

namespace binade::backend::cpu {
namespace {

constexpr double sqrt_pi = 1 / std::numbers::inv_sqrtpi;

template <class F>
void map(const double* x, double* y, int64_t n, F f) {
  for (int64_t i = 0; i < n; ++i) y[i] = f(x[i]);
}

template <class F>
void map(const double* a, const double* b, double* y, int64_t n, F f) {
  for (int64_t i = 0; i < n; ++i) y[i] = f(a[i], b[i]);
}

// 0 for NaN, as in PyTorch.
double sign(double x) { return static_cast<double>((x > 0) - (x < 0)); }

double sigmoid(double x) {
  const double small = std::exp(-std::fabs(x));
  return (x < 0 ? small : 1) / (1 + small);
}

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }
double normal_density(double x) { return std::exp(-0.5 * x * x) / (std::numbers::sqrt2 * sqrt_pi); }

double maximum(double a, double b) { return a > b || a != a ? a : b; }
double minimum(double a, double b) { return a < b || a != a ? a : b; }

// One functor per function, as with_unary() expects: value(x), and gradient(g, s), g times the
// derivative, from the input or, if saves_output(op), from the output.
// clang-format off
struct F64Functions {
  // ---- gradients from the output y ----

  struct Sqrt {
    static double value(double x) { return std::sqrt(x); }
    static double gradient(double g, double y) { return g * (0.5 / y); }
  };
  struct Rsqrt {
    static double value(double x) { return 1 / std::sqrt(x); }
    static double gradient(double g, double y) { return g * (-0.5 * y * y * y); }
  };
  struct Reciprocal {
    static double value(double x) { return 1 / x; }
    static double gradient(double g, double y) { return g * (-y * y); }
  };
  struct Exp {
    static double value(double x) { return std::exp(x); }
    static double gradient(double g, double y) { return g * y; }
  };
  struct Expm1 {
    static double value(double x) { return std::expm1(x); }
    static double gradient(double g, double x) { return g * std::exp(x); }
  };
  struct Tan {
    static double value(double x) { return std::tan(x); }
    static double gradient(double g, double y) { return g * (1 + y * y); }
  };
  struct Tanh {
    static double value(double x) { return std::tanh(x); }
    static double gradient(double g, double y) { return g * ((1 - y) * (1 + y)); }
  };
  struct Sigmoid {
    static double value(double x) { return sigmoid(x); }
    static double gradient(double g, double y) { return g * (y * (1 - y)); }
  };
  struct Erfinv {
    static double value(double x) { return inverse_erf(x); }
    static double gradient(double g, double y) { return g * (sqrt_pi / 2 * std::exp(y * y)); }
  };

  // ---- gradients from the input x ----

  struct Neg {
    static double value(double x) { return -x; }
    static double gradient(double g, double) { return g * -1.0; }
  };
  struct Abs {
    static double value(double x) { return std::fabs(x); }
    static double gradient(double g, double x) { return g * sign(x); }
  };
  struct Square {
    static double value(double x) { return x * x; }
    static double gradient(double g, double x) { return g * (2 * x); }
  };
  struct Log {
    static double value(double x) { return std::log(x); }
    static double gradient(double g, double x) { return g * (1 / x); }
  };
  struct Log2 {
    static double value(double x) { return std::log2(x); }
    static double gradient(double g, double x) { return g * (std::numbers::log2e / x); }
  };
  struct Log10 {
    static double value(double x) { return std::log10(x); }
    static double gradient(double g, double x) { return g * (std::numbers::log10e / x); }
  };
  struct Log1p {
    static double value(double x) { return std::log1p(x); }
    static double gradient(double g, double x) { return g * (1 / (1 + x)); }
  };
  struct Sin {
    static double value(double x) { return std::sin(x); }
    static double gradient(double g, double x) { return g * std::cos(x); }
  };
  struct Cos {
    static double value(double x) { return std::cos(x); }
    static double gradient(double g, double x) { return g * -std::sin(x); }
  };
  struct Asin {
    static double value(double x) { return std::asin(x); }
    static double gradient(double g, double x) { return g * (1 / std::sqrt((1 - x) * (1 + x))); }
  };
  struct Acos {
    static double value(double x) { return std::acos(x); }
    static double gradient(double g, double x) { return g * (-1 / std::sqrt((1 - x) * (1 + x))); }
  };
  struct Atan {
    static double value(double x) { return std::atan(x); }
    static double gradient(double g, double x) { return g * (1 / (1 + x * x)); }
  };
  struct Sinh {
    static double value(double x) { return std::sinh(x); }
    static double gradient(double g, double x) { return g * std::cosh(x); }
  };
  struct Cosh {
    static double value(double x) { return std::cosh(x); }
    static double gradient(double g, double x) { return g * std::sinh(x); }
  };
  struct Erf {
    static double value(double x) { return std::erf(x); }
    static double gradient(double g, double x) { return g * (2 / sqrt_pi * std::exp(-x * x)); }
  };
  // A choice rather than a product, since 0 * infinity is NaN.
  struct Relu {
    static double value(double x) { return x <= 0 ? 0 : x; }
    static double gradient(double g, double x) { return x <= 0 ? 0 : g; }
  };
  struct Gelu {
    static double value(double x) { return x * normal_cdf(x); }
    static double gradient(double g, double x) { return g * (normal_cdf(x) + x * normal_density(x)); }
  };
  struct GeluTanh {
    static double value(double x) { return x * gate(x); }
    static double gradient(double g, double x) {
      // Past 40 the derivative is 0 or 1; bounding x keeps its square finite.
      if (std::fabs(x) > 40) x = std::copysign(40, x);
      const double s = gate(x);
      return g * (s + s * (1 - s) * x * 2 * linear * (1 + 3 * cubic * x * x));
    }
    static constexpr double linear = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
    static constexpr double cubic = 0.044715;
    // (1 + tanh(u)) / 2 = sigmoid(2u)
    static double gate(double x) { return sigmoid(2 * linear * x * (1 + cubic * x * x)); }
  };
  struct Silu {
    static double value(double x) { return x * sigmoid(x); }
    static double gradient(double g, double x) {
      const double s = sigmoid(x);
      return g * (s + s * x * (1 - s));
    }
  };
  // log(1 + exp(x)), without overflow and without losing small results.
  struct Softplus {
    static double value(double x) { return (x > 0 ? x : 0) + std::log1p(std::exp(-std::fabs(x))); }
    static double gradient(double g, double x) { return g * sigmoid(x); }
  };
  struct LeakyRelu {
    double slope;
    double value(double x) const { return x > 0 ? x : slope * x; }
    double gradient(double g, double x) const { return g * (x > 0 ? 1 : slope); }
  };
  struct Pow {
    double exponent;
    double value(double x) const { return std::pow(x, exponent); }
    double gradient(double g, double x) const {
      return g * (exponent == 0 ? 0 : exponent * std::pow(x, exponent - 1));
    }
  };
  // As in PyTorch, no gradient at a bound, but an infinite bound is none.
  struct Clamp {
    double low, high;
    double value(double x) const { return x != x ? x : std::fmin(std::fmax(x, low), high); }
    double gradient(double g, double x) const {
      return (x > low && x < high) || (std::isinf(x) && (x == low || x == high)) ? g : 0;
    }
  };
  struct Scale {
    double factor, offset;
    double value(double x) const { return factor * x + offset; }
    double gradient(double g, double) const { return g * factor; }
  };

  // ---- functions whose derivative is zero wherever it exists ----

  struct Step { static double gradient(double, double) { return 0; } };
  struct Sign : Step { static double value(double x) { return sign(x); } };
  struct Floor : Step { static double value(double x) { return std::floor(x); } };
  struct Ceil : Step { static double value(double x) { return std::ceil(x); } };
  struct Round : Step { static double value(double x) { return std::nearbyint(x); } };
  struct Trunc : Step { static double value(double x) { return std::trunc(x); } };
  struct IsFinite : Step { static double value(double x) { return std::isfinite(x) ? 1 : 0; } };
  struct IsNan : Step { static double value(double x) { return x != x ? 1 : 0; } };
  struct IsInf : Step { static double value(double x) { return std::isinf(x) ? 1 : 0; } };
  struct LogicalNot : Step { static double value(double x) { return x == 0 ? 1 : 0; } };
};
// clang-format on

}  // namespace

double inverse_erf(double x) {
  const double magnitude = std::fabs(x);
  if (!(magnitude < 1)) {
    const double infinity = std::numeric_limits<double>::infinity();
    return magnitude == 1 ? std::copysign(infinity, x) : std::numeric_limits<double>::quiet_NaN();
  }
  if (magnitude < 1e-10) return x * (sqrt_pi / 2);
  // Winitzki's closed form is right to 2e-3; each Halley step triples the number of digits.
  constexpr double a = 0.147;
  const double log_term = std::log1p(-x * x);
  const double half = 2 / (std::numbers::pi * a) + log_term / 2;
  double y = std::sqrt(std::sqrt(half * half - log_term / a) - half);
  for (int step = 0; step < 3; ++step) {
    // From one half on the difference of the complements, exact there, is more accurate.
    const double error = magnitude < 0.5 ? std::erf(y) - magnitude : (1 - magnitude) - std::erfc(y);
    const double newton = error * (sqrt_pi / 2) * std::exp(y * y);
    y -= newton / (1 + y * newton);
  }
  return std::copysign(y, x);
}

void unary_block(Unary op, UnaryParams params, const double* x, double* y, int64_t n) {
  with_unary<F64Functions>(op, params, [=](auto function) {
    map(x, y, n, [=](double v) { return function.value(v); });
  });
}

void gradient_block(Unary op, UnaryParams params, const double* dy, const double* saved, double* dx,
                    int64_t n) {
  with_unary<F64Functions>(op, params, [=](auto function) {
    map(dy, saved, dx, n, [=](double g, double s) { return function.gradient(g, s); });
  });
}

// clang-format off
void binary_block(Binary op, const double* a, const double* b, double* y, int64_t n) {
  const auto each = [=](auto f) { map(a, b, y, n, f); };
  switch (op) {
    case Binary::add: return each([](double l, double r) { return l + r; });
    case Binary::sub: return each([](double l, double r) { return l - r; });
    case Binary::mul: return each([](double l, double r) { return l * r; });
    case Binary::div: return each([](double l, double r) { return l / r; });
    case Binary::pow: return each([](double l, double r) { return std::pow(l, r); });
    case Binary::atan2: return each([](double l, double r) { return std::atan2(l, r); });
    case Binary::maximum: return each(maximum);
    case Binary::minimum: return each(minimum);
    case Binary::equal: return each([](double l, double r) { return l == r ? 1 : 0; });
    case Binary::not_equal: return each([](double l, double r) { return l != r ? 1 : 0; });
    case Binary::less: return each([](double l, double r) { return l < r ? 1 : 0; });
    case Binary::less_equal: return each([](double l, double r) { return l <= r ? 1 : 0; });
    case Binary::greater: return each([](double l, double r) { return l > r ? 1 : 0; });
    case Binary::greater_equal: return each([](double l, double r) { return l >= r ? 1 : 0; });
    case Binary::logical_and:
      return each([](double l, double r) { return l != 0 && r != 0 ? 1 : 0; });
    case Binary::logical_or:
      return each([](double l, double r) { return l != 0 || r != 0 ? 1 : 0; });
    case Binary::bitwise_and: case Binary::bitwise_or: case Binary::bitwise_xor:
      fail("binary", {.argument = "op", .expected = "one for floats", .found = "one of bits"});
  }
}
// clang-format on

void axpby_block(double alpha, const double* x, double beta, const double* z, double* y,
                 int64_t n) {
  map(x, z, y, n, [=](double l, double r) { return alpha * l + beta * r; });
}

}  // namespace binade::backend::cpu
