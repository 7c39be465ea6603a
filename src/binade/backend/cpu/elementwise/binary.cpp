#include "binade/backend/cpu/elementwise/blocks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "binade/backend/cpu/elementwise/binary.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// Below foreach_target.h, which this relies on.
#include "binade/backend/cpu/elementwise/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace binade::backend::cpu::HWY_NAMESPACE {
namespace {

// a if `better`, else b; NaN if either is.
HWY_INLINE V choose(Mask better, V a, V b) {
  return hn::IfThenElse(hn::Or(better, is_nan(a)), a, b);
}

HWY_INLINE Mask is_true(V x) { return differ(x, hn::Zero(D())); }

HWY_INLINE V pow(V x, V exponent) {
  return by_lane(x, exponent, [](float v, float e) { return std::pow(v, e); });
}
HWY_INLINE V atan2(V y, V x) {
  return by_lane(y, x, [](float s, float c) { return std::atan2(s, c); });
}

// clang-format off
void binary(Binary op, const float* a, const float* b, float* y, int64_t n) {
  const auto each = [=](auto f) HWY_ATTR { map(a, b, y, n, f); };
  switch (op) {
    case Binary::add: return each([](V l, V r) HWY_ATTR { return hn::Add(l, r); });
    case Binary::sub: return each([](V l, V r) HWY_ATTR { return hn::Sub(l, r); });
    case Binary::mul: return each([](V l, V r) HWY_ATTR { return hn::Mul(l, r); });
    case Binary::div: return each([](V l, V r) HWY_ATTR { return hn::Div(l, r); });
    case Binary::pow: return each([](V l, V r) HWY_ATTR { return pow(l, r); });
    case Binary::atan2: return each([](V l, V r) HWY_ATTR { return atan2(l, r); });
    case Binary::maximum: return each([](V l, V r) HWY_ATTR { return choose(hn::Gt(l, r), l, r); });
    case Binary::minimum: return each([](V l, V r) HWY_ATTR { return choose(hn::Lt(l, r), l, r); });
    case Binary::equal: return each([](V l, V r) HWY_ATTR { return one_or_zero(hn::Eq(l, r)); });
    case Binary::not_equal:
      return each([](V l, V r) HWY_ATTR { return one_or_zero(differ(l, r)); });
    case Binary::less: return each([](V l, V r) HWY_ATTR { return one_or_zero(hn::Lt(l, r)); });
    case Binary::less_equal:
      return each([](V l, V r) HWY_ATTR { return one_or_zero(hn::Le(l, r)); });
    case Binary::greater: return each([](V l, V r) HWY_ATTR { return one_or_zero(hn::Gt(l, r)); });
    case Binary::greater_equal:
      return each([](V l, V r) HWY_ATTR { return one_or_zero(hn::Ge(l, r)); });
    case Binary::logical_and:
      return each([](V l, V r) HWY_ATTR { return one_or_zero(hn::And(is_true(l), is_true(r))); });
    case Binary::logical_or:
      return each([](V l, V r) HWY_ATTR { return one_or_zero(hn::Or(is_true(l), is_true(r))); });
    case Binary::bitwise_and: case Binary::bitwise_or: case Binary::bitwise_xor:
      fail("binary", {.argument = "op", .expected = "one for floats", .found = "one of bits"});
  }
}
// clang-format on

void axpby(double alpha, const float* x, double beta, const float* z, float* y, int64_t n) {
  const V a = constant(alpha), b = constant(beta);
  map(x, z, y, n, [=](V l, V r) HWY_ATTR { return hn::MulAdd(a, l, hn::Mul(b, r)); });
}

}  // namespace
}  // namespace binade::backend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace binade::backend::cpu {

HWY_EXPORT(binary);
HWY_EXPORT(axpby);

void binary_block(Binary op, const float* a, const float* b, float* y, int64_t n) {
  HWY_DYNAMIC_DISPATCH(binary)(op, a, b, y, n);
}

void axpby_block(double alpha, const float* x, double beta, const float* z, float* y, int64_t n) {
  HWY_DYNAMIC_DISPATCH(axpby)(alpha, x, beta, z, y, n);
}

}  // namespace binade::backend::cpu
#endif
