#include "binade/backend/cpu/attention/scores.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "binade/backend/cpu/attention/scores.cpp"
#include <hwy/foreach_target.h>  // NOLINT: must come before highway.h
#include <hwy/highway.h>

#include "binade/backend/cpu/elementwise/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace binade::backend::cpu::attention {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::CappedTag<float, 4>;  // panels are multiples of 4 wide
using V = hn::Vec<D>;

// tanh(factor * score).
HWY_INLINE V bent(V score, float factor) {
  return hn::Tanh(D(), hn::Mul(score, hn::Set(D(), factor)));
}

void cap_f32(const Softcap<float>& softcap, int64_t count, float* scores) {
  const D d;
  for (int64_t i = 0; i < count; i += static_cast<int64_t>(hn::Lanes(d)))
    hn::StoreU(hn::Mul(bent(hn::LoadU(d, scores + i), softcap.factor), hn::Set(d, softcap.cap)), d,
               scores + i);
}

void cap_gradients_f32(const CapGradient<float>& call) {
  const D d;
  for (int64_t row = call.rows.begin; row < call.rows.end; ++row) {
    const V delta = hn::Set(d, call.delta[row]);
    float *scores = call.scores + row * call.width, *gradients = call.gradients + row * call.width;
    for (int64_t i = 0; i < call.width; i += static_cast<int64_t>(hn::Lanes(d))) {
      const V t = bent(hn::LoadU(d, scores + i), call.softcap.factor);
      const V derivative = hn::NegMulAdd(t, t, hn::Set(d, 1.0f));
      const V gradient = hn::Sub(hn::LoadU(d, gradients + i), delta);
      hn::StoreU(hn::Mul(t, hn::Set(d, call.softcap.cap)), d, scores + i);
      hn::StoreU(hn::MulAdd(derivative, gradient, delta), d, gradients + i);
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace binade::backend::cpu::attention
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace binade::backend::cpu::attention {

HWY_EXPORT(cap_f32);
HWY_EXPORT(cap_gradients_f32);

void cap_scores(const Softcap<float>& softcap, int64_t count, float* scores) {
  HWY_DYNAMIC_DISPATCH(cap_f32)(softcap, count, scores);
}

void cap_scores(const Softcap<double>& softcap, int64_t count, double* scores) {
  for (int64_t i = 0; i < count; ++i)
    scores[i] = softcap.cap * std::tanh(softcap.factor * scores[i]);
}

void cap_gradients(const CapGradient<float>& call) {
  HWY_DYNAMIC_DISPATCH(cap_gradients_f32)(call);
}

void cap_gradients(const CapGradient<double>& call) {
  for (int64_t row = call.rows.begin; row < call.rows.end; ++row) {
    for (int64_t i = row * call.width; i < (row + 1) * call.width; ++i) {
      const double t = std::tanh(call.softcap.factor * call.scores[i]), delta = call.delta[row];
      call.scores[i] = call.softcap.cap * t;
      call.gradients[i] = delta + (1 - t * t) * (call.gradients[i] - delta);
    }
  }
}

}  // namespace binade::backend::cpu::attention
#endif
