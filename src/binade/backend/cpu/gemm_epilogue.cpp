#include "binade/backend/cpu/gemm_epilogue.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "binade/backend/cpu/gemm_convert.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "binade/backend/cpu/gemm_epilogue.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h

#include <hwy/highway.h>

#include "binade/backend/cpu/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace binade::backend::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// values[i] = f(values[i], terms[i]) a vector at a time. The short end goes through padded copies,
// so that an element is computed alike wherever in a run it stands.
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
  transform(values, values, count, [f](D d, V v, V) HWY_ATTR { return f(d, v); });
}

V gelu_tanh(D d, V x) {
  // (1 + tanh u) / 2 = sigmoid(2u) keeps the left tail's relative accuracy.
  constexpr double slope = 2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  const V cubic = hn::MulAdd(hn::Mul(x, x), hn::Set(d, static_cast<float>(slope * 0.044715)),
                             hn::Set(d, static_cast<float>(slope)));
  return hn::Mul(x, sigmoid(d, hn::Mul(x, cubic)));
}

// values = alpha * values + beta * c + bias; c and bias may be null.
void combine(float* values, int64_t count, float alpha, const float* c, float beta,
             const float* bias) {
  if (alpha != 1) {
    transform(values, count, [=](D d, V v) HWY_ATTR { return hn::Mul(v, hn::Set(d, alpha)); });
  }
  if (c != nullptr) {
    transform(values, c, count,
              [=](D d, V v, V old) HWY_ATTR { return hn::MulAdd(old, hn::Set(d, beta), v); });
  }
  if (bias != nullptr)
    transform(values, bias, count, [](D, V v, V b) HWY_ATTR { return hn::Add(v, b); });
}

void activate(Activation activation, float* values, int64_t count) {
  switch (activation) {
    case Activation::none:
      return;
    case Activation::relu:
      // Not Max: a NaN must stay one.
      return transform(values, count, [](D d, V v) HWY_ATTR {
        return hn::IfThenElse(hn::Lt(v, hn::Zero(d)), hn::Zero(d), v);
      });
    case Activation::gelu:
      return transform(values, count, [](D d, V v) HWY_ATTR {
        return hn::Mul(v, normal_distribution(d, v).cumulative);
      });
    case Activation::gelu_tanh:
      return transform(values, count, [](D d, V v) HWY_ATTR { return gelu_tanh(d, v); });
    case Activation::silu:
      return transform(values, count, [](D d, V v) HWY_ATTR { return hn::Mul(v, sigmoid(d, v)); });
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
    case Activation::none:
      return x;
    case Activation::relu:
      return x < 0 ? 0 : x;
    case Activation::gelu:
      return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
    case Activation::gelu_tanh:
      return x / (1 + std::exp(-scale * x * (1 + 0.044715 * x * x)));
    case Activation::silu:
      return x / (1 + std::exp(-x));
  }
  return x;
}

void store(const float* values, int64_t count, void* to, Element type, int64_t stride,
           const OutputRun& run) {
  if (type == Element::bf16 && stride == 1 && run.to_bf16 != nullptr) {
    run.to_bf16(values, to, count);
  } else {
    write_elements(values, count, to, type, stride);
  }
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
      HWY_DYNAMIC_DISPATCH(combine)
      (values, part, e.alpha, e.beta != 0 ? old : nullptr, e.beta,
       bias != nullptr ? bias + begin : nullptr);
    }
    if (run.pre_activation != nullptr) {
      void* pre = advance(run.pre_activation, e.pre_activation_type, begin * run.pre_stride);
      store(values, part, pre, e.pre_activation_type, run.pre_stride, run);
    }
    if (e.activation != Activation::none) {
      HWY_DYNAMIC_DISPATCH(activate)(e.activation, values, part);
    }
    store(values, part, c, c_type, run.c_stride, run);
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
