#include "binade/backend/cpu/elementwise_blocks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "binade/backend/cpu/elementwise_binary.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// Below foreach_target.h, which this relies on.
#include "binade/backend/cpu/elementwise_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace binade::backend::cpu::HWY_NAMESPACE {
namespace {

// a where `better`, else b, but NaN where either is.
HWY_INLINE V choose(Mask better, V a, V b) {
  return hn::IfThenElse(hn::Or(better, is_nan(a)), a, b);
}

// clang-format off
void binary(Binary op, const float* a, const float* b, float* y, int64_t n) {
  const V zero = hn::Zero(D());
  switch (op) {
    case Binary::add: return map(a, b, y, n, [](V l, V r) HWY_ATTR { return hn::Add(l, r); });
    case Binary::sub: return map(a, b, y, n, [](V l, V r) HWY_ATTR { return hn::Sub(l, r); });
    case Binary::mul: return map(a, b, y, n, [](V l, V r) HWY_ATTR { return hn::Mul(l, r); });
    case Binary::div: return map(a, b, y, n, [](V l, V r) HWY_ATTR { return hn::Div(l, r); });
    case Binary::pow: return map(a, b, y, n, [](V l, V r) HWY_ATTR { return by_lane(l, r, [](float x, float e) { return std::pow(x, e); }); });
    case Binary::atan2: return map(a, b, y, n, [](V l, V r) HWY_ATTR { return by_lane(l, r, [](float s, float c) { return std::atan2(s, c); }); });
    case Binary::maximum: return map(a, b, y, n, [](V l, V r) HWY_ATTR { return choose(hn::Gt(l, r), l, r); });
    case Binary::minimum: return map(a, b, y, n, [](V l, V r) HWY_ATTR { return choose(hn::Lt(l, r), l, r); });
    case Binary::equal: return map(a, b, y, n, [](V l, V r) HWY_ATTR { return one_or_zero(hn::Eq(l, r)); });
    case Binary::not_equal: return map(a, b, y, n, [](V l, V r) HWY_ATTR { return one_or_zero(hn::Ne(l, r)); });
    case Binary::less: return map(a, b, y, n, [](V l, V r) HWY_ATTR { return one_or_zero(hn::Lt(l, r)); });
    case Binary::less_equal: return map(a, b, y, n, [](V l, V r) HWY_ATTR { return one_or_zero(hn::Le(l, r)); });
    case Binary::greater: return map(a, b, y, n, [](V l, V r) HWY_ATTR { return one_or_zero(hn::Gt(l, r)); });
    case Binary::greater_equal: return map(a, b, y, n, [](V l, V r) HWY_ATTR { return one_or_zero(hn::Ge(l, r)); });
    case Binary::logical_and: return map(a, b, y, n, [=](V l, V r) HWY_ATTR { return one_or_zero(hn::And(hn::Ne(l, zero), hn::Ne(r, zero))); });
    case Binary::logical_or: return map(a, b, y, n, [=](V l, V r) HWY_ATTR { return one_or_zero(hn::Or(hn::Ne(l, zero), hn::Ne(r, zero))); });
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
