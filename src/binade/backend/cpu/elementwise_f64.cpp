#include <cmath>
#include <limits>
#include <numbers>

#include "binade/backend/cpu/elementwise_blocks.h"

namespace binade::backend::cpu {
namespace {

constexpr double sqrt_pi = 1 / std::numbers::inv_sqrtpi;
constexpr double gelu_slope = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
constexpr double gelu_cubic = 0.044715;

template <class F>
void map(const double* x, double* y, int64_t n, F f) {
  for (int64_t i = 0; i < n; ++i) y[i] = f(x[i]);
}

template <class F>
void map(const double* a, const double* b, double* y, int64_t n, F f) {
  for (int64_t i = 0; i < n; ++i) y[i] = f(a[i], b[i]);
}

double sign(double x) { return x != x ? x : static_cast<double>((x > 0) - (x < 0)); }

double sigmoid(double x) {
  const double small = std::exp(-std::fabs(x));
  return (x < 0 ? small : 1) / (1 + small);
}

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }
double normal_density(double x) { return std::exp(-0.5 * x * x) / (std::numbers::sqrt2 * sqrt_pi); }

// (1 + tanh(u)) / 2 = sigmoid(2u)
double gelu_tanh_gate(double x) { return sigmoid(2 * gelu_slope * x * (1 + gelu_cubic * x * x)); }

double gelu_tanh_derivative(double x) {
  // Past 40 the derivative is 0 or 1; bounding x keeps its square finite.
  if (std::fabs(x) > 40) x = std::copysign(40, x);
  const double gate = gelu_tanh_gate(x);
  return gate + gate * (1 - gate) * x * 2 * gelu_slope * (1 + 3 * gelu_cubic * x * x);
}

double clamp(double x, UnaryNumbers numbers) {
  return x != x ? x : std::fmin(std::fmax(x, numbers.a), numbers.b);
}

double maximum(double a, double b) { return a > b || a != a ? a : b; }
double minimum(double a, double b) { return a < b || a != a ? a : b; }

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
    // Past one half the complement, exact there, keeps the digits of the difference.
    const double error =
        magnitude < 0.5 ? std::erf(y) - magnitude : (1 - magnitude) - std::erfc(y);
    const double newton = error * (sqrt_pi / 2) * std::exp(y * y);
    y -= newton / (1 + y * newton);
  }
  return std::copysign(y, x);
}

// clang-format off
void unary_block(Unary op, UnaryNumbers numbers, const double* x, double* y, int64_t n) {
  const double a = numbers.a, b = numbers.b;
  switch (op) {
    case Unary::neg: return map(x, y, n, [](double v) { return -v; });
    case Unary::abs: return map(x, y, n, [](double v) { return std::fabs(v); });
    case Unary::sign: return map(x, y, n, sign);
    case Unary::square: return map(x, y, n, [](double v) { return v * v; });
    case Unary::sqrt: return map(x, y, n, [](double v) { return std::sqrt(v); });
    case Unary::rsqrt: return map(x, y, n, [](double v) { return 1 / std::sqrt(v); });
    case Unary::reciprocal: return map(x, y, n, [](double v) { return 1 / v; });
    case Unary::exp: return map(x, y, n, [](double v) { return std::exp(v); });
    case Unary::expm1: return map(x, y, n, [](double v) { return std::expm1(v); });
    case Unary::log: return map(x, y, n, [](double v) { return std::log(v); });
    case Unary::log2: return map(x, y, n, [](double v) { return std::log2(v); });
    case Unary::log10: return map(x, y, n, [](double v) { return std::log10(v); });
    case Unary::log1p: return map(x, y, n, [](double v) { return std::log1p(v); });
    case Unary::sin: return map(x, y, n, [](double v) { return std::sin(v); });
    case Unary::cos: return map(x, y, n, [](double v) { return std::cos(v); });
    case Unary::tan: return map(x, y, n, [](double v) { return std::tan(v); });
    case Unary::asin: return map(x, y, n, [](double v) { return std::asin(v); });
    case Unary::acos: return map(x, y, n, [](double v) { return std::acos(v); });
    case Unary::atan: return map(x, y, n, [](double v) { return std::atan(v); });
    case Unary::sinh: return map(x, y, n, [](double v) { return std::sinh(v); });
    case Unary::cosh: return map(x, y, n, [](double v) { return std::cosh(v); });
    case Unary::tanh: return map(x, y, n, [](double v) { return std::tanh(v); });
    case Unary::erf: return map(x, y, n, [](double v) { return std::erf(v); });
    case Unary::erfinv: return map(x, y, n, inverse_erf);
    case Unary::sigmoid: return map(x, y, n, sigmoid);
    case Unary::relu: return map(x, y, n, [](double v) { return v <= 0 ? 0 : v; });
    case Unary::leaky_relu: return map(x, y, n, [=](double v) { return v > 0 ? v : a * v; });
    case Unary::gelu: return map(x, y, n, [](double v) { return v * normal_cdf(v); });
    case Unary::gelu_tanh: return map(x, y, n, [](double v) { return v * gelu_tanh_gate(v); });
    case Unary::silu: return map(x, y, n, [](double v) { return v * sigmoid(v); });
    case Unary::softplus: return map(x, y, n, [](double v) { return (v > 0 ? v : 0) + std::log1p(std::exp(-std::fabs(v))); });
    case Unary::pow: return map(x, y, n, [=](double v) { return std::pow(v, a); });
    case Unary::clamp: return map(x, y, n, [=](double v) { return clamp(v, numbers); });
    case Unary::scale: return map(x, y, n, [=](double v) { return a * v + b; });
    case Unary::floor: return map(x, y, n, [](double v) { return std::floor(v); });
    case Unary::ceil: return map(x, y, n, [](double v) { return std::ceil(v); });
    case Unary::round: return map(x, y, n, [](double v) { return std::nearbyint(v); });
    case Unary::trunc: return map(x, y, n, [](double v) { return std::trunc(v); });
    case Unary::is_finite: return map(x, y, n, [](double v) { return std::isfinite(v) ? 1 : 0; });
    case Unary::is_nan: return map(x, y, n, [](double v) { return v != v ? 1 : 0; });
    case Unary::is_inf: return map(x, y, n, [](double v) { return std::isinf(v) ? 1 : 0; });
    case Unary::logical_not: return map(x, y, n, [](double v) { return v == 0 ? 1 : 0; });
  }
}

void gradient_block(Unary op, UnaryNumbers numbers, const double* dy, const double* s, double* dx, int64_t n) {
  const double a = numbers.a, b = numbers.b;
  switch (op) {
    // From the output y.
    case Unary::sqrt: return map(dy, s, dx, n, [](double g, double y) { return g / (2 * y); });
    case Unary::rsqrt: return map(dy, s, dx, n, [](double g, double y) { return -0.5 * g * y * y * y; });
    case Unary::reciprocal: return map(dy, s, dx, n, [](double g, double y) { return -g * y * y; });
    case Unary::exp: return map(dy, s, dx, n, [](double g, double y) { return g * y; });
    case Unary::expm1: return map(dy, s, dx, n, [](double g, double y) { return g * (y + 1); });
    case Unary::tan: return map(dy, s, dx, n, [](double g, double y) { return g * (1 + y * y); });
    case Unary::tanh: return map(dy, s, dx, n, [](double g, double y) { return g * (1 - y) * (1 + y); });
    case Unary::sigmoid: return map(dy, s, dx, n, [](double g, double y) { return g * y * (1 - y); });
    case Unary::erfinv: return map(dy, s, dx, n, [](double g, double y) { return g * (sqrt_pi / 2) * std::exp(y * y); });
    // From the input x.
    case Unary::neg: return map(dy, dx, n, [](double g) { return -g; });
    case Unary::abs: return map(dy, s, dx, n, [](double g, double x) { return g * sign(x); });
    case Unary::square: return map(dy, s, dx, n, [](double g, double x) { return 2 * g * x; });
    case Unary::log: return map(dy, s, dx, n, [](double g, double x) { return g / x; });
    case Unary::log2: return map(dy, s, dx, n, [](double g, double x) { return g / (x * std::numbers::ln2); });
    case Unary::log10: return map(dy, s, dx, n, [](double g, double x) { return g / (x * std::numbers::ln10); });
    case Unary::log1p: return map(dy, s, dx, n, [](double g, double x) { return g / (1 + x); });
    case Unary::sin: return map(dy, s, dx, n, [](double g, double x) { return g * std::cos(x); });
    case Unary::cos: return map(dy, s, dx, n, [](double g, double x) { return -g * std::sin(x); });
    case Unary::asin: return map(dy, s, dx, n, [](double g, double x) { return g / std::sqrt((1 - x) * (1 + x)); });
    case Unary::acos: return map(dy, s, dx, n, [](double g, double x) { return -g / std::sqrt((1 - x) * (1 + x)); });
    case Unary::atan: return map(dy, s, dx, n, [](double g, double x) { return g / (1 + x * x); });
    case Unary::sinh: return map(dy, s, dx, n, [](double g, double x) { return g * std::cosh(x); });
    case Unary::cosh: return map(dy, s, dx, n, [](double g, double x) { return g * std::sinh(x); });
    case Unary::erf: return map(dy, s, dx, n, [](double g, double x) { return g * (2 / sqrt_pi) * std::exp(-x * x); });
    case Unary::relu: return map(dy, s, dx, n, [](double g, double x) { return x <= 0 ? 0 : g; });
    case Unary::leaky_relu: return map(dy, s, dx, n, [=](double g, double x) { return x > 0 ? g : a * g; });
    case Unary::gelu: return map(dy, s, dx, n, [](double g, double x) { return g * (normal_cdf(x) + x * normal_density(x)); });
    case Unary::gelu_tanh: return map(dy, s, dx, n, [](double g, double x) { return g * gelu_tanh_derivative(x); });
    case Unary::silu: return map(dy, s, dx, n, [](double g, double x) { const double gate = sigmoid(x); return g * (gate + gate * x * (1 - gate)); });
    case Unary::softplus: return map(dy, s, dx, n, [](double g, double x) { return g * sigmoid(x); });
    case Unary::pow: return map(dy, s, dx, n, [=](double g, double x) { return a == 0 ? 0 : g * a * std::pow(x, a - 1); });
    case Unary::clamp: return map(dy, s, dx, n, [=](double g, double x) { return x >= a && x <= b ? g : 0; });
    case Unary::scale: return map(dy, dx, n, [=](double g) { return g * a; });
    case Unary::sign: case Unary::floor: case Unary::ceil: case Unary::round: case Unary::trunc:
    case Unary::is_finite: case Unary::is_nan: case Unary::is_inf: case Unary::logical_not:
      return map(dy, dx, n, [](double) { return 0.0; });
  }
}

void binary_block(Binary op, const double* a, const double* b, double* y, int64_t n) {
  switch (op) {
    case Binary::add: return map(a, b, y, n, [](double l, double r) { return l + r; });
    case Binary::sub: return map(a, b, y, n, [](double l, double r) { return l - r; });
    case Binary::mul: return map(a, b, y, n, [](double l, double r) { return l * r; });
    case Binary::div: return map(a, b, y, n, [](double l, double r) { return l / r; });
    case Binary::pow: return map(a, b, y, n, [](double l, double r) { return std::pow(l, r); });
    case Binary::atan2: return map(a, b, y, n, [](double l, double r) { return std::atan2(l, r); });
    case Binary::maximum: return map(a, b, y, n, maximum);
    case Binary::minimum: return map(a, b, y, n, minimum);
    case Binary::equal: return map(a, b, y, n, [](double l, double r) { return l == r ? 1 : 0; });
    case Binary::not_equal: return map(a, b, y, n, [](double l, double r) { return l != r ? 1 : 0; });
    case Binary::less: return map(a, b, y, n, [](double l, double r) { return l < r ? 1 : 0; });
    case Binary::less_equal: return map(a, b, y, n, [](double l, double r) { return l <= r ? 1 : 0; });
    case Binary::greater: return map(a, b, y, n, [](double l, double r) { return l > r ? 1 : 0; });
    case Binary::greater_equal: return map(a, b, y, n, [](double l, double r) { return l >= r ? 1 : 0; });
    case Binary::logical_and: return map(a, b, y, n, [](double l, double r) { return l != 0 && r != 0 ? 1 : 0; });
    case Binary::logical_or: return map(a, b, y, n, [](double l, double r) { return l != 0 || r != 0 ? 1 : 0; });
  }
}
// clang-format on

void axpby_block(double alpha, const double* x, double beta, const double* z, double* y, int64_t n) {
  map(x, z, y, n, [=](double l, double r) { return alpha * l + beta * r; });
}

}  // namespace binade::backend::cpu
