#include "binade/backend/cpu/elementwise/blocks.h"
#include "binade/backend/unary_dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "binade/backend/cpu/elementwise/unary.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// Below foreach_target.h, which this relies on.
#include "binade/backend/cpu/elementwise/unary_functions-inl.h"

HWY_BEFORE_NAMESPACE();
namespace binade::backend::cpu::HWY_NAMESPACE {
namespace {

void unary(Unary op, UnaryParams params, const float* x, float* y, int64_t n) {
  with_unary<VectorFunctions>(op, params, [=](auto function) HWY_ATTR {
    map(x, y, n, [=](V v) HWY_ATTR { return function.value(v); });
  });
}

}  // namespace
}  // namespace binade::backend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace binade::backend::cpu {

HWY_EXPORT(unary);

void unary_block(Unary op, UnaryParams params, const float* x, float* y, int64_t n) {
  HWY_DYNAMIC_DISPATCH(unary)(op, params, x, y, n);
}

}  // namespace binade::backend::cpu
#endif
