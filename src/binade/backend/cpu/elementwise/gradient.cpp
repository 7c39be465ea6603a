#include "binade/backend/cpu/elementwise/blocks.h"
#include "binade/backend/unary_dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "binade/backend/cpu/elementwise/gradient.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// Below foreach_target.h, which this relies on.
#include "binade/backend/cpu/elementwise/unary_functions-inl.h"

HWY_BEFORE_NAMESPACE();
namespace binade::backend::cpu::HWY_NAMESPACE {
namespace {

void gradient(Unary op, UnaryParams params, const float* dy, const float* saved, float* dx,
              int64_t n) {
  with_unary<VectorFunctions>(op, params, [=](auto function) HWY_ATTR {
    map(dy, saved, dx, n, [=](V g, V s) HWY_ATTR { return function.gradient(g, s); });
  });
}

}  // namespace
}  // namespace binade::backend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace binade::backend::cpu {

HWY_EXPORT(gradient);

void gradient_block(Unary op, UnaryParams params, const float* dy, const float* saved, float* dx,
                    int64_t n) {
  HWY_DYNAMIC_DISPATCH(gradient)(op, params, dy, saved, dx, n);
}

}  // namespace binade::backend::cpu
#endif
