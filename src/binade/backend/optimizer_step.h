#pragma once

#include <algorithm>
#include <cmath>

#include "binade/backend/optimizer.h"
#include "binade/base/error.h"
#include "binade/base/host_device.h"
#include "binade/base/random.h"

// The scalars of an update, which every backend computes before it starts.
namespace binade::backend {

// The scalars of an Adam step, computed in f64.
template <class T>
struct AdamStep {
  explicit AdamStep(const AdamParams& n)
      : keep(static_cast<T>(n.decoupled_decay ? 1 - n.lr * n.weight_decay : 1.0)),
        decay(static_cast<T>(n.decoupled_decay ? 0.0 : n.weight_decay)),
        beta1(static_cast<T>(n.beta1)),
        fresh1(static_cast<T>(1 - n.beta1)),
        beta2(static_cast<T>(n.beta2)),
        fresh2(static_cast<T>(1 - n.beta2)),
        root_correction2(static_cast<T>(std::sqrt(n.correction2))),
        eps(static_cast<T>(n.eps)),
        step_size(static_cast<T>(n.lr / n.correction1)) {}

  T gradient_factor = 1;  // UpdateControl's
  T keep;           // the parameter is multiplied by it: 1 - lr * weight decay if decoupled, else 1
  T decay;          // times the parameter, is added to the gradient; 0 if decoupled
  T beta1, fresh1;  // fresh = 1 - beta
  T beta2, fresh2;
  T root_correction2;  // sqrt(1 - beta2^t)
  T eps;
  T step_size;  // lr / (1 - beta1^t)
};

template <class T>
struct SgdStep {
  explicit SgdStep(const SgdParams& n)
      : decay(static_cast<T>(n.weight_decay)),
        momentum(static_cast<T>(n.momentum)),
        fresh(static_cast<T>(1 - n.dampening)),
        lr(static_cast<T>(n.lr)),
        nesterov(n.nesterov),
        first(n.first_step) {}

  T gradient_factor = 1;
  T decay;
  T momentum, fresh;  // fresh = 1 - dampening
  T lr;
  bool nesterov;
  bool first;  // momentum becomes the gradient; its old value is ignored
};

template <class T>
struct RmspropStep {
  explicit RmspropStep(const RmspropParams& n)
      : decay(static_cast<T>(n.weight_decay)),
        alpha(static_cast<T>(n.alpha)),
        fresh(static_cast<T>(1 - n.alpha)),
        eps(static_cast<T>(n.eps)),
        momentum(static_cast<T>(n.momentum)),
        lr(static_cast<T>(n.lr)) {}

  T gradient_factor = 1;
  T decay;
  T alpha, fresh;  // fresh = 1 - alpha
  T eps, momentum, lr;
};

template <class T>
struct AdagradStep {
  explicit AdagradStep(const AdagradParams& n)
      : decay(static_cast<T>(n.weight_decay)),
        eps(static_cast<T>(n.eps)),
        lr(static_cast<T>(n.lr)) {}

  T gradient_factor = 1;
  T decay, eps, lr;
};

template <class T>
struct LionStep {
  explicit LionStep(const LionParams& n)
      : keep(static_cast<T>(1 - n.lr * n.weight_decay)),
        beta1(static_cast<T>(n.beta1)),
        fresh1(static_cast<T>(1 - n.beta1)),
        beta2(static_cast<T>(n.beta2)),
        fresh2(static_cast<T>(1 - n.beta2)),
        lr(static_cast<T>(n.lr)) {}

  T gradient_factor = 1;
  T keep;  // the parameter is multiplied by it
  T beta1, fresh1, beta2, fresh2, lr;
};

// The learning rate of an update before which `skipped` steps were skipped in all.
BINADE_HD inline double learning_rate(double lr, const RatesAfterSkips& after, double skipped) {
  const int unknown = static_cast<int>(skipped - after.known);
  if (unknown <= 0) return lr;
  constexpr int most = RatesAfterSkips::capacity;
  return after.lr[(unknown < most ? unknown : most) - 1];
}

// The key of a 16-bit master's stochastic rounding. Its stream differs from those of the ops in the
// same step. Params: those of any optimizer.
template <class Params>
random::Key rounding_key(const Params& hyper) {
  return {hyper.seed, random::stream_id(random::Domain::optimizer, hyper.step)};
}

// Calls update with the TypeTag of the master weights' compute type.
template <class F>
void with_master_type(std::span<const UpdateItem> items, F update) {
  const auto is_double = [](const UpdateItem& item) { return item.master.dtype == DType::f64; };
  if (std::none_of(items.begin(), items.end(), is_double)) return update(TypeTag<float>{});
  if (std::all_of(items.begin(), items.end(), is_double)) return update(TypeTag<double>{});
  fail("optimizer",
       {.argument = "master", .expected = "masters all f64 or none", .found = "a mixture"});
}

}  // namespace binade::backend
