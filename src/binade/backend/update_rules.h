#pragma once

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "binade/backend/optimizer.h"
#include "binade/base/error.h"
#include "binade/base/host_device.h"
#include "binade/base/random.h"

// The update rules of elementwise optimizers: of each, its hyperparameters and the scalars that
// every backend computes from them before it starts. A rule's `Step<T>` has them in the type T of
// the master weights.
namespace binade::backend {

template <class T>
struct AdamStep;
struct AdamParams {
  double lr = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0;
  double correction1 = 1, correction2 = 1;  // 1 - beta^count
  int64_t count = 1;                        // updates of these items, including this one
  bool decoupled_decay = true;              // AdamW; otherwise the decay is added to the gradient
  // Of a 16-bit `master`, keyed by seed and step.
  bool stochastic_rounding = false;
  uint64_t seed = 0, step = 0;
  RatesAfterSkips after_skips = {};

  template <class T>
  using Step = AdamStep<T>;
};

// Computed in f64.
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
struct SgdStep;
struct SgdParams {
  double lr = 0, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
  bool first_step = false;  // momentum starts as the gradient
  int64_t count = 1;        // updates of these items, including this one
  bool stochastic_rounding = false;
  uint64_t seed = 0, step = 0;
  RatesAfterSkips after_skips = {};

  template <class T>
  using Step = SgdStep<T>;
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
struct RmspropStep;
struct RmspropParams {
  double lr = 0, alpha = 0, eps = 0, weight_decay = 0, momentum = 0;
  bool stochastic_rounding = false;
  uint64_t seed = 0, step = 0;

  template <class T>
  using Step = RmspropStep<T>;
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
struct AdagradStep;
struct AdagradParams {
  double lr = 0;  // of this step, already decayed
  double eps = 0, weight_decay = 0;
  bool stochastic_rounding = false;
  uint64_t seed = 0, step = 0;

  template <class T>
  using Step = AdagradStep<T>;
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
struct LionStep;
struct LionParams {
  double lr = 0, beta1 = 0, beta2 = 0, weight_decay = 0;
  bool stochastic_rounding = false;
  uint64_t seed = 0, step = 0;

  template <class T>
  using Step = LionStep<T>;
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

// Adam's, and the weights of gradient and momentum in the direction of the update.
template <class T>
struct NadamStep;
struct NadamParams : AdamParams {
  double gradient_weight = 0, momentum_weight = 1;

  template <class T>
  using Step = NadamStep<T>;
};

template <class T>
struct NadamStep : AdamStep<T> {
  explicit NadamStep(const NadamParams& n)
      : AdamStep<T>(n),
        gradient_size(static_cast<T>(n.lr * n.gradient_weight)),
        momentum_size(static_cast<T>(n.lr * n.momentum_weight)) {}

  T gradient_size, momentum_size;  // lr times their weights
};

// The first half of Muon's update: the momentum (`first`), and its direction, which becomes
// `master`.
template <class T>
struct MuonMomentumStep;
struct MuonMomentumParams {
  double momentum = 0;
  bool nesterov = true;
  bool stochastic_rounding = false;
  uint64_t seed = 0, step = 0;

  template <class T>
  using Step = MuonMomentumStep<T>;
};

template <class T>
struct MuonMomentumStep {
  explicit MuonMomentumStep(const MuonMomentumParams& n)
      : momentum(static_cast<T>(n.momentum)),
        fresh(static_cast<T>(1 - n.momentum)),
        nesterov(n.nesterov) {}

  T gradient_factor = 1;
  T momentum, fresh;
  bool nesterov;
};

// The second: weights from changes, which are the `gradient` here.
template <class T>
struct MuonStep;
struct MuonParams {
  double lr = 0, weight_decay = 0;
  double factor = 1, root = 1;  // changes are multiplied by lr * factor * root
  bool stochastic_rounding = false;
  uint64_t seed = 0, step = 0;
  RatesAfterSkips after_skips = {};

  template <class T>
  using Step = MuonStep<T>;
};

template <class T>
struct MuonStep {
  explicit MuonStep(const MuonParams& n)
      : keep(static_cast<T>(1 - n.lr * n.weight_decay)),
        rate(static_cast<T>(n.lr * n.factor * n.root)) {}

  T gradient_factor = 1;
  T keep, rate;
};

// Any of the rules.
using RuleParams = std::variant<AdamParams, SgdParams, RmspropParams, AdagradParams, LionParams,
                                NadamParams, MuonMomentumParams, MuonParams>;

// A rule as an argument of OptimizerKernels::update.
struct UpdateRule {
  template <class Params>
  UpdateRule(const Params& given) : params(given) {}  // NOLINT: implicit, as its arguments are

  RuleParams params;
};

namespace detail {
template <class T, class... Params>
std::variant<typename Params::template Step<T>...> steps_of(const std::variant<Params...>&);
}  // namespace detail

// The scalars of any of the rules.
template <class T>
using RuleStep = decltype(detail::steps_of<T>(std::declval<RuleParams>()));

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
