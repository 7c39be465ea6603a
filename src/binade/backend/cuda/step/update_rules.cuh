#pragma once

#include <type_traits>

#include "binade/backend/cuda/common/magnitude.cuh"
#include "binade/backend/cuda/common/rounded_division.cuh"
#include "binade/backend/update_rules.h"

// The updates of elements by each optimizer. Same bits as the CPU's.
namespace binade::backend::cuda {

// a * b rounded, never fused with a following addition, so that results equal the CPU's.
__device__ inline float product(float a, float b) { return __fmul_rn(a, b); }
__device__ inline double product(double a, double b) { return __dmul_rn(a, b); }

// The last four of UpdateControl::hyper.
__device__ inline RatesAfterSkips rates_in(const double* hyper) {
  RatesAfterSkips rates;
  for (int i = 0; i < RatesAfterSkips::capacity; ++i) rates.lr[i] = hyper[4 + i];
  rates.known = hyper[4 + RatesAfterSkips::capacity];
  return rates;
}

// Adam's update in two halves: first the moments and weight decay.
template <class C>
__device__ void adam_moments(const AdamStep<C>& s, C g, C& p, C& m, C& v) {
  g = product(g, s.gradient_factor);
  if (s.decay != 0) g = fma(s.decay, p, g);  // zero times an infinite weight would be NaN
  p = product(p, s.keep);
  m = fma(s.beta1, m, product(s.fresh1, g));
  v = fma(s.beta2, v, product(product(s.fresh2, g), g));
}

// Not inlined: the branches of divisions and roots would take registers from the usual case.
template <class C>
__device__ __noinline__ C adam_change(C step_size, C root_correction2, C eps, C m, C v) {
  return product(step_size, m) / (sqrt(v) / root_correction2 + eps);
}

// Then the weights: p -= step_size m / (sqrt(v) / root_correction2 + eps).
template <class C, int N>
__device__ void adam_weights(const AdamStep<C>& s, C (&p)[N], const C (&m)[N], const C (&v)[N]) {
  if constexpr (std::is_same_v<C, float>) {
    MagnitudeRange sizes, squares;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      sizes.add(product(s.step_size, m[i]));
      squares.add(v[i]);
    }
    if (sizes.is_within(0x1p-80f, 0x1p+60f) && squares.is_within(0x1p-100f, 0x1p+40f) &&
        s.eps < 0x1p+20f && s.root_correction2 > 0x1p-12f) {
      const Divisor correction = Divisor::of(s.root_correction2);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float root = correction.quotient(square_root(v[i]));
        p[i] -= Divisor::of(root + s.eps).quotient(product(s.step_size, m[i]));
      }
      return;
    }
  }
#pragma unroll
  for (int i = 0; i < N; ++i)
    p[i] -= adam_change(s.step_size, s.root_correction2, s.eps, m[i], v[i]);
}

template <class C>
struct AdamRule : AdamStep<C> {
  using type = C;
  static constexpr const char* name = "adam";
  // Kept to recompute the scalars for another lr or count.
  double lr, correction1, correction2;
  double decay1, decay2;  // the betas
  double decoupled;       // weight decay of the parameter itself
  int64_t count;
  RatesAfterSkips after_skips;

  explicit AdamRule(const AdamParams& n)
      : AdamStep<C>(n),
        lr(n.lr),
        correction1(n.correction1),
        correction2(n.correction2),
        decay1(n.beta1),
        decay2(n.beta2),
        decoupled(n.decoupled_decay ? n.weight_decay : 0.0),
        count(n.count),
        after_skips(n.after_skips) {}

  // Replaces the host's values by UpdateControl::hyper.
  __device__ void set(const double* hyper) {
    lr = hyper[0];
    count = static_cast<int64_t>(hyper[1]);
    correction1 = hyper[2];
    correction2 = hyper[3];
    after_skips = rates_in(hyper);
    derive();
  }

  __device__ void set_rate(double rate) {
    lr = rate;
    derive();
  }

  // Corrects for counted updates that were skipped.
  __device__ void without(int64_t skipped) {
    const auto updates = static_cast<double>(count - skipped);
    correction1 = 1 - pow(decay1, updates);
    correction2 = 1 - pow(decay2, updates);
    derive();
  }

  __device__ void derive() {
    this->keep = static_cast<C>(1 - product(lr, decoupled));
    this->root_correction2 = static_cast<C>(sqrt(correction2));
    this->step_size = static_cast<C>(lr / correction1);
  }

  template <int N>
  __device__ void update(const C (&g)[N], C (&p)[N], C (&m)[N], C (&v)[N], bool) const {
#pragma unroll
    for (int i = 0; i < N; ++i) adam_moments(*this, g[i], p[i], m[i], v[i]);
    adam_weights(*this, p, m, v);
  }
};

template <class C>
struct SgdRule : SgdStep<C> {
  using type = C;
  static constexpr const char* name = "sgd";
  int64_t count;
  double lr;
  RatesAfterSkips after_skips;

  explicit SgdRule(const SgdParams& n)
      : SgdStep<C>(n), count(n.count), lr(n.lr), after_skips(n.after_skips) {}

  __device__ void set(const double* hyper) {
    count = static_cast<int64_t>(hyper[1]);
    after_skips = rates_in(hyper);
    set_rate(hyper[0]);
    without(0);
  }

  __device__ void set_rate(double rate) {
    lr = rate;
    SgdStep<C>::lr = static_cast<C>(rate);
  }

  __device__ void without(int64_t skipped) { this->first = count - skipped == 1; }

  template <int N>
  __device__ void update(const C (&g)[N], C (&p)[N], C (&m)[N], C (&)[N], bool has_momentum) const {
#pragma unroll
    for (int i = 0; i < N; ++i) update_one(g[i], p[i], m[i], has_momentum);
  }

  __device__ void update_one(C g, C& p, C& m, bool has_momentum) const {
    const SgdStep<C>& s = *this;
    g = product(g, s.gradient_factor);
    if (s.decay != 0) g = fma(s.decay, p, g);  // zero times an infinite weight would be NaN
    if (has_momentum) {
      m = fma(s.momentum, s.first ? C{0} : m, product(s.first ? C{1} : s.fresh, g));
      g = s.nesterov ? fma(s.momentum, m, g) : m;
    }
    p = fma(-s.lr, g, p);
  }
};

template <class C>
struct MuonMomentumRule : MuonMomentumStep<C> {
  using type = C;
  static constexpr const char* name = "muon momentum";
  double lr = 0;  // of no effect here
  RatesAfterSkips after_skips = {};

  explicit MuonMomentumRule(const MuonMomentumParams& n) : MuonMomentumStep<C>(n) {}

  __device__ void set(const double*) {}
  __device__ void set_rate(double) {}
  __device__ void without(int64_t) {}

  template <int N>
  __device__ void update(const C (&given)[N], C (&p)[N], C (&m)[N], C (&)[N], bool) const {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const C g = product(given[i], this->gradient_factor);
      m[i] = m[i] + product(g - m[i], this->fresh);
      p[i] = this->nesterov ? g + product(m[i] - g, this->momentum) : m[i];
    }
  }
};

template <class C>
struct MuonRule : MuonStep<C> {
  using type = C;
  static constexpr const char* name = "muon";
  double lr, weight_decay, factor, root;
  RatesAfterSkips after_skips;

  explicit MuonRule(const MuonParams& n)
      : MuonStep<C>(n),
        lr(n.lr),
        weight_decay(n.weight_decay),
        factor(n.factor),
        root(n.root),
        after_skips(n.after_skips) {}

  __device__ void set(const double* hyper) {
    after_skips = rates_in(hyper);
    set_rate(hyper[0]);
  }

  __device__ void set_rate(double rate) {
    lr = rate;
    this->keep = static_cast<C>(1 - product(lr, weight_decay));
    this->rate = static_cast<C>(product(product(lr, factor), root));
  }

  __device__ void without(int64_t) {}

  template <int N>
  __device__ void update(const C (&change)[N], C (&p)[N], C (&)[N], C (&)[N], bool) const {
#pragma unroll
    for (int i = 0; i < N; ++i) p[i] = product(p[i], this->keep) - product(change[i], this->rate);
  }
};

}  // namespace binade::backend::cuda
