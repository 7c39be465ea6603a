#include "binade/backend/cpu/gemm_epilogue.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "binade/backend/cpu/gemm_convert.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "binade/backend/cpu/gemm_epilogue.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace binade::backend::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// values[i] = f(values[i], terms[i]) a vector at a time. The short end goes through padded copies, so
// that an element is computed alike wherever in a run it stands.
template <class F>
void transform(float* values, const float* terms, int64_t count, F f) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(f(d, hn::LoadU(d, values + i), hn::LoadU(d, terms + i)), d, values + i);
  }
  if (i == count) return;
  HWY_ALIGN float rest[hn::MaxLanes(d)] = {};
  HWY_ALIGN float rest_terms[hn::MaxLanes(d)] = {};
  std::copy(values + i, values + count, rest);
  std::copy(terms + i, terms + count, rest_terms);
  hn::Store(f(d, hn::Load(d, rest), hn::Load(d, rest_terms)), d, rest);
  std::copy(rest, rest + (count - i), values + i);
}

template <class F>
void transform(float* values, int64_t count, F f) {
  transform(values, values, count, [f](D d, V v, V) { return f(d, v); });
}

// x / (1 + exp(-s)). Past 100 the quotient no longer changes; Exp wants no larger argument.
V times_sigmoid(D d, V x, V s) {
  const V e = hn::Exp(d, hn::Min(hn::Neg(s), hn::Set(d, 100.0f)));
  return hn::Div(x, hn::Add(hn::Set(d, 1.0f), e));
}

V gelu_tanh(D d, V x) {
  // 1 + tanh(u) = 2 sigmoid(2u) keeps the left tail's relative accuracy.
  constexpr float scale = static_cast<float>(2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
  const V cubic = hn::MulAdd(hn::Mul(x, x), hn::Set(d, 0.044715f), hn::Set(d, 1.0f));
  return times_sigmoid(d, x, hn::Mul(hn::Mul(hn::Set(d, scale), x), cubic));
}

// x * erfc(-x / sqrt 2) / 2. For z >= 0, erfc(z) = exp(-z^2) t P(t) with t = 1 / (1 + 0.3 z), P a
// minimax fit with a relative error under 2^-25 over the range where erfc does not underflow.
V gelu(D d, V x) {
  constexpr float coefficients[] = {0.16918744f,  0.17072341f, 0.14828867f,
                                    0.21509917f,  -0.09501186f, 0.5481903f,
                                    -0.5126519f,  0.48572937f, -0.12955455f};
  const V z = hn::Mul(hn::Abs(x), hn::Set(d, static_cast<float>(std::numbers::sqrt2 / 2)));
  const V t = hn::Div(hn::Set(d, 1.0f), hn::MulAdd(z, hn::Set(d, 0.3f), hn::Set(d, 1.0f)));
  V p = hn::Set(d, coefficients[8]);
  for (int i = 7; i >= 0; --i) p = hn::MulAdd(p, t, hn::Set(d, coefficients[i]));
  const V square = hn::Min(hn::Mul(z, z), hn::Set(d, 200.0f));  // exp is 0 there
  const V half = hn::Mul(hn::Mul(hn::Set(d, 0.5f), hn::Exp(d, hn::Neg(square))), hn::Mul(t, p));
  const V phi = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), half, hn::Sub(hn::Set(d, 1.0f), half));
  return hn::Mul(x, phi);
}

// values = alpha * values + beta * c + bias; c and bias may be null.
void combine(float* values, int64_t count, float alpha, const float* c, float beta,
             const float* bias) {
  if (alpha != 1) {
    transform(values, count, [=](D d, V v) { return hn::Mul(v, hn::Set(d, alpha)); });
  }
  if (c != nullptr) {
    transform(values, c, count, [=](D d, V v, V old) { return hn::MulAdd(old, hn::Set(d, beta), v); });
  }
  if (bias != nullptr) transform(values, bias, count, [](D, V v, V b) { return hn::Add(v, b); });
}

void activate(Activation activation, float* values, int64_t count) {
  switch (activation) {
    case Activation::none: return;
    case Activation::relu:
      // Not Max: a NaN must stay one.
      return transform(values, count, [](D d, V v) {
        return hn::IfThenElse(hn::Lt(v, hn::Zero(d)), hn::Zero(d), v);
      });
    case Activation::gelu:
      return transform(values, count, [](D d, V v) { return gelu(d, v); });
    case Activation::gelu_tanh:
      return transform(values, count, [](D d, V v) { return gelu_tanh(d, v); });
    case Activation::silu:
      return transform(values, count, [](D d, V v) { return times_sigmoid(d, v, v); });
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace binade::backend::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace binade::backend::cpu {
namespace {

HWY_EXPORT(combine);
HWY_EXPORT(activate);

double activate_one(Activation activation, double x) {
  constexpr double scale = 2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  switch (activation) {
    case Activation::none: return x;
    case Activation::relu: return x < 0 ? 0 : x;
    case Activation::gelu: return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
    case Activation::gelu_tanh: return x / (1 + std::exp(-scale * x * (1 + 0.044715 * x * x)));
    case Activation::silu: return x / (1 + std::exp(-x));
  }
  return x;
}

void* advance(void* data, Element type, int64_t elements) {
  return static_cast<char*>(data) + elements * element_size(type);
}

}  // namespace

void finish_run(float* sums, int64_t count, const float* bias, const Epilogue& e, Element c_type,
                const OutputRun& run) {
  constexpr int64_t chunk = 512;
  float old[chunk];
  for (int64_t begin = 0; begin < count; begin += chunk) {
    const int64_t part = std::min(chunk, count - begin);
    float* values = sums + begin;
    void* c = advance(run.c, c_type, begin * run.c_stride);
    if (e.beta != 0) read_elements(c, c_type, run.c_stride, part, old);
    if (e.alpha != 1 || e.beta != 0 || bias != nullptr) {
      HWY_DYNAMIC_DISPATCH(combine)(values, part, e.alpha, e.beta != 0 ? old : nullptr, e.beta,
                                    bias != nullptr ? bias + begin : nullptr);
    }
    if (run.pre_activation != nullptr) {
      void* pre = advance(run.pre_activation, e.pre_activation_type, begin * run.pre_stride);
      write_elements(values, part, pre, e.pre_activation_type, run.pre_stride);
    }
    if (e.activation != Activation::none) {
      HWY_DYNAMIC_DISPATCH(activate)(e.activation, values, part);
    }
    write_elements(values, part, c, c_type, run.c_stride);
  }
}

void finish_run(double* sums, int64_t count, const double* bias, const Epilogue& e, Element c_type,
                const OutputRun& run) {
  for (int64_t i = 0; i < count; ++i) {
    void* c = advance(run.c, c_type, i * run.c_stride);
    double value = e.alpha * sums[i];
    if (e.beta != 0) {
      double old;
      read_elements(c, c_type, 1, 1, &old);
      value += e.beta * old;
    }
    if (bias != nullptr) value += bias[i];
    if (run.pre_activation != nullptr) {
      void* pre = advance(run.pre_activation, e.pre_activation_type, i * run.pre_stride);
      write_elements(&value, 1, pre, e.pre_activation_type, 1);
    }
    value = activate_one(e.activation, value);
    write_elements(&value, 1, c, c_type, 1);
  }
}

}  // namespace binade::backend::cpu
#endif
