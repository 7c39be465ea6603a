#include <algorithm>
#include <cmath>
#include <string>

#include "binade/backend/cast.h"
#include "binade/backend/cpu/elementwise/blocks.h"

namespace binade::backend::cpu {
namespace {

// Integers wrap around: unsigned arithmetic, which has no undefined overflow.
int64_t add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t sub(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
int64_t mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
int64_t div(int64_t a, int64_t b) {
  if (b == 0) return 0;
  return b == -1 ? sub(0, a) : a / b;
}

int64_t pow(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == -1) return exponent % 2 == 0 ? 1 : -1;
    return base == 1 ? 1 : 0;
  }
  int64_t result = 1;
  for (; exponent > 0; exponent /= 2, base = mul(base, base)) {
    if (exponent % 2 == 1) result = mul(result, base);
  }
  return result;
}

bool is_whole(double x) { return std::fabs(x) < 0x1p63 && x == std::trunc(x); }

template <class F>
void map(const int64_t* x, int64_t* y, int64_t n, F f) {
  for (int64_t i = 0; i < n; ++i) y[i] = f(x[i]);
}

template <class F>
void map(const int64_t* a, const int64_t* b, int64_t* y, int64_t n, F f) {
  for (int64_t i = 0; i < n; ++i) y[i] = f(a[i], b[i]);
}

}  // namespace

bool computes_on_integers(Unary op, UnaryParams params) {
  switch (op) {
    case Unary::neg:
    case Unary::abs:
    case Unary::sign:
    case Unary::square:
    case Unary::relu:
    case Unary::floor:
    case Unary::ceil:
    case Unary::round:
    case Unary::trunc:
    case Unary::is_finite:
    case Unary::is_nan:
    case Unary::is_inf:
    case Unary::logical_not:
      return true;
    case Unary::clamp:
      // Fractional bounds are rounded inwards, infinite ones saturate.
      return !std::isnan(params.a) && !std::isnan(params.b);
    case Unary::scale:
      return is_whole(params.a) && is_whole(params.b);
    default:
      return false;
  }
}

// clang-format off
void unary_block(Unary op, UnaryParams params, const int64_t* x, int64_t* y, int64_t n) {
  const auto each = [=](auto f) { map(x, y, n, f); };
  switch (op) {
    case Unary::neg: return each([](int64_t v) { return sub(0, v); });
    case Unary::abs: return each([](int64_t v) { return v < 0 ? sub(0, v) : v; });
    case Unary::sign: return each([](int64_t v) { return (v > 0) - (v < 0); });
    case Unary::square: return each([](int64_t v) { return mul(v, v); });
    case Unary::relu: return each([](int64_t v) { return v > 0 ? v : 0; });
    case Unary::floor: case Unary::ceil: case Unary::round: case Unary::trunc:
      return each([](int64_t v) { return v; });
    case Unary::is_finite: return each([](int64_t) { return 1; });
    case Unary::is_nan: case Unary::is_inf: return each([](int64_t) { return 0; });
    case Unary::logical_not: return each([](int64_t v) { return v == 0 ? 1 : 0; });
    case Unary::clamp: {
      const int64_t low = cast<int64_t>(std::ceil(params.a));
      const int64_t high = cast<int64_t>(std::floor(params.b));
      return each([=](int64_t v) { return std::min(std::max(v, low), high); });
    }
    case Unary::scale: {
      const int64_t a = cast<int64_t>(params.a), b = cast<int64_t>(params.b);
      return each([=](int64_t v) { return add(mul(a, v), b); });
    }
    default:
      fail("unary", {.argument = "op",
                     .expected = "one for integers",
                     .found = std::to_string(static_cast<int>(op))});
  }
}

void binary_block(Binary op, const int64_t* a, const int64_t* b, int64_t* y, int64_t n) {
  const auto each = [=](auto f) { map(a, b, y, n, f); };
  switch (op) {
    case Binary::add: return each(add);
    case Binary::sub: return each(sub);
    case Binary::mul: return each(mul);
    case Binary::div: return each(div);
    case Binary::pow: return each(pow);
    case Binary::maximum: return each([](int64_t l, int64_t r) { return std::max(l, r); });
    case Binary::minimum: return each([](int64_t l, int64_t r) { return std::min(l, r); });
    case Binary::equal: return each([](int64_t l, int64_t r) { return l == r ? 1 : 0; });
    case Binary::not_equal: return each([](int64_t l, int64_t r) { return l != r ? 1 : 0; });
    case Binary::less: return each([](int64_t l, int64_t r) { return l < r ? 1 : 0; });
    case Binary::less_equal: return each([](int64_t l, int64_t r) { return l <= r ? 1 : 0; });
    case Binary::greater: return each([](int64_t l, int64_t r) { return l > r ? 1 : 0; });
    case Binary::greater_equal: return each([](int64_t l, int64_t r) { return l >= r ? 1 : 0; });
    case Binary::logical_and:
      return each([](int64_t l, int64_t r) { return l != 0 && r != 0 ? 1 : 0; });
    case Binary::logical_or:
      return each([](int64_t l, int64_t r) { return l != 0 || r != 0 ? 1 : 0; });
    case Binary::bitwise_and: return each([](int64_t l, int64_t r) { return l & r; });
    case Binary::bitwise_or: return each([](int64_t l, int64_t r) { return l | r; });
    case Binary::bitwise_xor: return each([](int64_t l, int64_t r) { return l ^ r; });
    case Binary::atan2:
      fail("binary", {.argument = "op", .expected = "one for integers", .found = "atan2"});
  }
}
// clang-format on

void axpby_block(double alpha, const int64_t* x, double beta, const int64_t* z, int64_t* y,
                 int64_t n) {
  const int64_t a = cast<int64_t>(alpha), b = cast<int64_t>(beta);
  map(x, z, y, n, [=](int64_t l, int64_t r) { return add(mul(a, l), mul(b, r)); });
}

}  // namespace binade::backend::cpu
