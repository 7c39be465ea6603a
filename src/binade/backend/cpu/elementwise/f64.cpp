#include <cmath>
#include <limits>
#include <numbers>

#include "binade/backend/cpu/elementwise/blocks.h"

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

double silu_derivative(double x) {
  const double gate = sigmoid(x);
  return gate + gate * x * (1 - gate);
}

// log(1 + exp(x)) where neither overflows nor loses small results.
double softplus(double x) { return (x > 0 ? x : 0) + std::log1p(std::exp(-std::fabs(x))); }

double clamp(double x, UnaryParams numbers) {
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
    const double error = magnitude < 0.5 ? std::erf(y) - magnitude : (1 - magnitude) - std::erfc(y);
    const double newton = error * (sqrt_pi / 2) * std::exp(y * y);
    y -= newton / (1 + y * newton);
  }
  return std::copysign(y, x);
}

// clang-format off
void unary_block(Unary op, UnaryParams numbers, const double* x, double* y, int64_t n) {
  const double a = numbers.a, b = numbers.b;
  const auto each = [=](auto f) { map(x, y, n, f); };
  switch (op) {
    case Unary::neg: return each([](double v) { return -v; });
    case Unary::abs: return each([](double v) { return std::fabs(v); });
    case Unary::sign: return each(sign);
    case Unary::square: return each([](double v) { return v * v; });
    case Unary::sqrt: return each([](double v) { return std::sqrt(v); });
    case Unary::rsqrt: return each([](double v) { return 1 / std::sqrt(v); });
    case Unary::reciprocal: return each([](double v) { return 1 / v; });
    case Unary::exp: return each([](double v) { return std::exp(v); });
    case Unary::expm1: return each([](double v) { return std::expm1(v); });
    case Unary::log: return each([](double v) { return std::log(v); });
    case Unary::log2: return each([](double v) { return std::log2(v); });
    case Unary::log10: return each([](double v) { return std::log10(v); });
    case Unary::log1p: return each([](double v) { return std::log1p(v); });
    case Unary::sin: return each([](double v) { return std::sin(v); });
    case Unary::cos: return each([](double v) { return std::cos(v); });
    case Unary::tan: return each([](double v) { return std::tan(v); });
    case Unary::asin: return each([](double v) { return std::asin(v); });
    case Unary::acos: return each([](double v) { return std::acos(v); });
    case Unary::atan: return each([](double v) { return std::atan(v); });
    case Unary::sinh: return each([](double v) { return std::sinh(v); });
    case Unary::cosh: return each([](double v) { return std::cosh(v); });
    case Unary::tanh: return each([](double v) { return std::tanh(v); });
    case Unary::erf: return each([](double v) { return std::erf(v); });
    case Unary::erfinv: return each(inverse_erf);
    case Unary::sigmoid: return each(sigmoid);
    case Unary::relu: return each([](double v) { return v <= 0 ? 0 : v; });
    case Unary::leaky_relu: return each([=](double v) { return v > 0 ? v : a * v; });
    case Unary::gelu: return each([](double v) { return v * normal_cdf(v); });
    case Unary::gelu_tanh: return each([](double v) { return v * gelu_tanh_gate(v); });
    case Unary::silu: return each([](double v) { return v * sigmoid(v); });
    case Unary::softplus: return each(softplus);
    case Unary::pow: return each([=](double v) { return std::pow(v, a); });
    case Unary::clamp: return each([=](double v) { return clamp(v, numbers); });
    case Unary::scale: return each([=](double v) { return a * v + b; });
    case Unary::floor: return each([](double v) { return std::floor(v); });
    case Unary::ceil: return each([](double v) { return std::ceil(v); });
    case Unary::round: return each([](double v) { return std::nearbyint(v); });
    case Unary::trunc: return each([](double v) { return std::trunc(v); });
    case Unary::is_finite: return each([](double v) { return std::isfinite(v) ? 1 : 0; });
    case Unary::is_nan: return each([](double v) { return v != v ? 1 : 0; });
    case Unary::is_inf: return each([](double v) { return std::isinf(v) ? 1 : 0; });
    case Unary::logical_not: return each([](double v) { return v == 0 ? 1 : 0; });
  }
}

void gradient_block(Unary op, UnaryParams numbers, const double* dy, const double* saved,
                    double* dx, int64_t n) {
  const double a = numbers.a, b = numbers.b;
  const auto each = [=](auto slope) {
    map(dy, saved, dx, n, [=](double g, double s) { return g * slope(s); });
  };
  // A choice, since 0 times an infinite gradient would not be 0.
  const auto chosen = [=](auto f) { map(dy, saved, dx, n, f); };
  switch (op) {
    // From the output y.
    case Unary::sqrt: return each([](double y) { return 0.5 / y; });
    case Unary::rsqrt: return each([](double y) { return -0.5 * y * y * y; });
    case Unary::reciprocal: return each([](double y) { return -y * y; });
    case Unary::exp: return each([](double y) { return y; });
    case Unary::expm1: return each([](double y) { return y + 1; });
    case Unary::tan: return each([](double y) { return 1 + y * y; });
    case Unary::tanh: return each([](double y) { return (1 - y) * (1 + y); });
    case Unary::sigmoid: return each([](double y) { return y * (1 - y); });
    case Unary::erfinv: return each([](double y) { return sqrt_pi / 2 * std::exp(y * y); });
    // From the input x.
    case Unary::neg: return each([](double) { return -1.0; });
    case Unary::abs: return each([](double x) { return sign(x); });
    case Unary::square: return each([](double x) { return 2 * x; });
    case Unary::log: return each([](double x) { return 1 / x; });
    case Unary::log2: return each([](double x) { return std::numbers::log2e / x; });
    case Unary::log10: return each([](double x) { return std::numbers::log10e / x; });
    case Unary::log1p: return each([](double x) { return 1 / (1 + x); });
    case Unary::sin: return each([](double x) { return std::cos(x); });
    case Unary::cos: return each([](double x) { return -std::sin(x); });
    case Unary::asin: return each([](double x) { return 1 / std::sqrt((1 - x) * (1 + x)); });
    case Unary::acos: return each([](double x) { return -1 / std::sqrt((1 - x) * (1 + x)); });
    case Unary::atan: return each([](double x) { return 1 / (1 + x * x); });
    case Unary::sinh: return each([](double x) { return std::cosh(x); });
    case Unary::cosh: return each([](double x) { return std::sinh(x); });
    case Unary::erf: return each([](double x) { return 2 / sqrt_pi * std::exp(-x * x); });
    case Unary::relu: return chosen([](double g, double x) { return x <= 0 ? 0 : g; });
    case Unary::leaky_relu: return each([=](double x) { return x > 0 ? 1 : a; });
    case Unary::gelu: return each([](double x) { return normal_cdf(x) + x * normal_density(x); });
    case Unary::gelu_tanh: return each(gelu_tanh_derivative);
    case Unary::silu: return each(silu_derivative);
    case Unary::softplus: return each([](double x) { return sigmoid(x); });
    case Unary::pow: return each([=](double x) { return a == 0 ? 0 : a * std::pow(x, a - 1); });
    case Unary::clamp: return chosen([=](double g, double x) { return x >= a && x <= b ? g : 0; });
    case Unary::scale: return each([=](double) { return a; });
    case Unary::sign: case Unary::floor: case Unary::ceil: case Unary::round: case Unary::trunc:
    case Unary::is_finite: case Unary::is_nan: case Unary::is_inf: case Unary::logical_not:
      return map(dy, dx, n, [](double) { return 0.0; });
  }
}

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
  }
}
// clang-format on

void axpby_block(double alpha, const double* x, double beta, const double* z, double* y,
                 int64_t n) {
  map(x, z, y, n, [=](double l, double r) { return alpha * l + beta * r; });
}

}  // namespace binade::backend::cpu
