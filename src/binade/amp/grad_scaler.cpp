#include "binade/amp/grad_scaler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "binade/amp/call.h"
#include "binade/amp/diverged_error.h"
#include "binade/amp/warnings.h"
#include "binade/autograd/autograd_meta.h"
#include "binade/autograd/grad_mode.h"
#include "binade/autograd/node.h"
#include "binade/backend/backend.h"
#include "binade/backend/capabilities.h"
#include "binade/base/execution.h"

namespace binade::amp {
namespace {

void check(const GradScalerOptions& options) {
  const auto refuse = [](const char* argument, const char* expected, double found) {
    fail("GradScaler",
         {.argument = argument, .expected = expected, .found = fmt::format("{}", found)});
  };
  if (!(options.growth_factor > 1) || !std::isfinite(options.growth_factor))
    refuse("growth_factor", "more than 1", options.growth_factor);
  if (!(options.backoff_factor > 0 && options.backoff_factor < 1))
    refuse("backoff_factor", "between 0 and 1", options.backoff_factor);
  if (!(options.init_scale > 0) || !std::isfinite(options.init_scale))
    refuse("init_scale", "more than 0", options.init_scale);
  if (options.growth_interval < 1)
    refuse("growth_interval", "at least 1", static_cast<double>(options.growth_interval));
  if (options.hysteresis < 1)
    refuse("hysteresis", "at least 1", static_cast<double>(options.hysteresis));
  if (!(options.minimum_scale >= 0)) refuse("minimum_scale", "at least 0", options.minimum_scale);
}

Tensor filled(const Shape& shape, double value, DType dtype, Device device) {
  const memory::CategoryGuard category(memory::Category::optimizer);
  Tensor x = Tensor::empty(shape, dtype, device);
  backend::of(x).elementwise.fill(x, value);
  return x;
}

Tensor copied(const Tensor& x) {
  const memory::CategoryGuard category(memory::Category::optimizer);
  Tensor copy = Tensor::empty_like(x);
  backend::of(x).elementwise.copy(x, copy);
  return copy;
}

// The host reads outcomes this many iterations late, so that it does not wait for a GPU. A fixed
// number, so that its decisions do not depend on timing; 2 is enough to keep the GPU busy.
constexpr size_t iterations_ahead = 2;

// A scale that was halved 56 times from the default has crossed all of f16's binades, and more.
constexpr double lost_scale = 0x1p-40;

constexpr const char* scaled_twice =
    "GradScaler: scale() was given a loss that it has scaled already: gradients are unscaled once "
    "and stay too large; scale each loss once";
constexpr const char* never_scaled =
    "GradScaler: step() without scale(loss) since the last update(): gradients are divided by a "
    "loss scale that they do not have; call scaler.scale(loss).backward()";
constexpr const char* backward_unscaled =
    "GradScaler: no backward() used the result of scale(): gradients are divided by a loss scale "
    "that they do not have; call scaler.scale(loss).backward(), not loss.backward()";

constexpr const char* clipped_scaled =
    "GradScaler: gradients were clipped before they were unscaled: the limit was compared with "
    "gradients times the loss scale; call scaler.unscale(optimizer) before clipping";
constexpr const char* adds_to_unscaled =
    "GradScaler: backward() adds scaled gradients to those that the last step() has unscaled; call "
    "optimizer.zero_grad() in each iteration";

// The gradients that a thread has clipped between a scale() and the update() after it; null
// outside. Of the thread: scaling, clipping and stepping are calls of one loop.
using Clipped = std::set<std::weak_ptr<const Storage>, std::owner_less<>>;
constinit execution::Slot<std::shared_ptr<Clipped>> clipped(execution::Belongs::to_thread);

// The number of the op that computed a tensor; 0: none did.
uint64_t node_of(const Tensor& x) {
  const auto& meta = x.autograd_meta();
  return meta == nullptr || meta->node == nullptr ? 0 : meta->node->sequence + 1;
}

struct WithGradients {
  std::vector<Tensor> parameters;
  std::vector<TensorView> gradients;
};

WithGradients with_gradients(const Steppable& optimizer) {
  WithGradients result;
  const std::vector<Tensor> parameters = optimizer.parameters(), gradients = optimizer.gradients();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Tensor &parameter = parameters[i], &gradient = gradients[i];
    if (!gradient.defined()) continue;
    if (gradient.dtype() == DType::f16) {
      fail("unscale", {.argument = "gradient of " + describe(parameter),
                       .expected = "f32 gradients",
                       .found = "f16",
                       .hint = "unscaling in f16 brings back the underflow that scaling avoids: "
                               "keep gradients in f32 "
                               "(set_grad_dtype) with f32 master weights in the optimizer"});
    }
    result.parameters.push_back(parameter);
    result.gradients.push_back(gradient);
  }
  return result;
}

}  // namespace

void note_clipped(const std::vector<Tensor>& parameters) {
  if (*clipped == nullptr) return;
  for (const Tensor& parameter : parameters) {
    if (const Tensor gradient = parameter.grad(); gradient.defined())
      (*clipped)->insert(gradient.storage());
  }
}

bool StepReport::applied() const { return !found_inf_.defined() || found_inf_.get() == 0; }

std::string StepReport::reason() const {
  if (applied()) return {};
  const Tensor bad = bad_parameter();
  const std::string text = fmt::format("a gradient of {} is not finite at loss scale {}",
                                       bad.defined() ? describe(bad) : "a parameter", scale());
  if (!at_scale_one_) return text;
  return text + ": scaling is not the problem, the gradients themselves are infinite or NaN";
}

Tensor StepReport::bad_parameter() const {
  if (applied()) return {};
  const auto index = static_cast<size_t>(first_bad_.get());
  return index < checked_.size() ? checked_[index] : Tensor();
}

StepReport StepReport::replayed() const {
  StepReport report = *this;
  for (backend::AsyncScalar* scalar : {&report.found_inf_, &report.first_bad_, &report.scale_})
    *scalar = scalar->replayed();
  return report;
}

double StepReport::scale() const { return scale_.defined() ? scale_.get() : 1; }

GradScaler::GradScaler(const GradScalerOptions& options) : options_(options) {
  if (!options.enabled) return;
  check(options);
  hyper_ = {.growth = options.growth_factor,
            .backoff = options.backoff_factor,
            .interval = options.growth_interval,
            .hysteresis = options.hysteresis,
            .minimum = options.minimum_scale};
}

void GradScaler::require_scale(const char* call) const {
  if (scale_.defined()) return;
  fail(call, {.argument = "scaler",
              .expected = "scale(loss) before it",
              .found = "a scaler that has scaled nothing yet"});
}

void GradScaler::warn_of(const std::string& text) {
  use_->warnings.push_back(text);
  if (warned_.insert(text).second) warn(text);
}

void GradScaler::check_use() {
  if (!use_->is_scaled) {
    warn_of(never_scaled);
  } else if (!use_->ran_backward) {
    warn_of(backward_unscaled);
  }
  if (use_->adds_to_unscaled) warn_of(adds_to_unscaled);
}

bool GradScaler::Gradient::is_as_it_was() const {
  const Tensor now = parameter.grad();
  return now.defined() && now.storage() == storage.lock() && now.version() == version;
}

Tensor GradScaler::scale(const Tensor& loss) {
  if (!loss.defined() || !is_compute(loss.dtype())) {
    fail("scale", {.argument = "loss",
                   .expected = "a tensor of f64, f32, f16 or bf16",
                   .found = describe(loss)});
  }
  if (!options_.enabled) return loss;
  if (!scale_.defined()) {
    scale_ = filled({1}, options_.init_scale, DType::f32, loss.device());
    trackers_ = filled({2}, 0, DType::i32, loss.device());
    backend::of(loss).elementwise.fill(trackers_.strided({1}, {1}, 1),
                                       static_cast<double>(options_.hysteresis));
  }
  if (use_->nodes.contains(node_of(loss))) warn_of(scaled_twice);
  use_->is_scaled = true;
  *clipped = std::make_shared<Clipped>();
  const Call call(Op::mul, {loss});
  const auto times_scale = [scale = scale_](const Tensor& x) {
    Tensor y = Tensor::empty(x.shape(), promote(x.dtype(), DType::f32), x.device());
    backend::of(x).elementwise.binary(backend::Binary::mul, x,
                                      TensorView(scale).expanded(x.shape()), y);
    return y;
  };
  Tensor scaled = call.result(times_scale(loss),
                              [times_scale, use = use_](const Tensor& dy, autograd::GradSlots dx) {
                                if (use->stepped && !use->ran_backward)
                                  use->adds_to_unscaled = use->stepped->is_as_it_was();
                                use->ran_backward = true;
                                dx[0].add(times_scale(dy));
                              });
  if (const uint64_t node = node_of(scaled); node != 0) use_->nodes.insert(node);
  return scaled;
}

void GradScaler::check_gradients(Steppable& optimizer, PerOptimizer& state) {
  const auto [parameters, gradients] = with_gradients(optimizer);
  state.checked = parameters;
  if (state.checked.empty()) return;
  const auto is_clipped = [](const Tensor& parameter) {
    const Tensor gradient = parameter.grad();
    return *clipped != nullptr && gradient.defined() && (*clipped)->contains(gradient.storage());
  };
  if (std::any_of(parameters.begin(), parameters.end(), is_clipped)) warn_of(clipped_scaled);
  const Tensor inverse = filled({1}, 0, DType::f32, scale_.device());
  state.found_inf = filled({1}, 0, DType::f32, scale_.device());
  state.first_bad = filled({1}, std::numeric_limits<int32_t>::max(), DType::i32, scale_.device());
  state.scale = copied(scale_);  // update() changes scale_ before a captured step's report is read
  const auto& kernels = backend::of(scale_);
  kernels.scaler.invert(scale_, inverse);
  kernels.optimizer.unscale(gradients, inverse, state.found_inf, state.first_bad);
}

void GradScaler::unscale(Steppable& optimizer) {
  if (!options_.enabled) return;
  require_scale("unscale");
  PerOptimizer& state = state_of(optimizer);
  if (state.stage == Stage::unscaled) {
    fail("unscale", {.argument = "optimizer",
                     .expected = "one unscale() per update()",
                     .found = "a second one",
                     .hint = "gradients are unscaled already"});
  }
  if (state.stage == Stage::stepped) {
    fail("unscale", {.argument = "optimizer",
                     .expected = "a call before step",
                     .found = "one after it",
                     .hint = "call update() first"});
  }
  check_gradients(optimizer, state);
  state.stage = Stage::unscaled;
}

GradScaler::PerOptimizer& GradScaler::state_of(Steppable& optimizer) {
  return optimizers_[&optimizer];
}

GradientCheck GradScaler::check_of(Steppable& optimizer) {
  const PerOptimizer& state = state_of(optimizer);
  if (state.stage != Stage::unscaled) {
    fail("check_of", {.argument = "optimizer",
                      .expected = "a call between unscale() and step()",
                      .found = "none of unscale()"});
  }
  return {state.found_inf, state.first_bad};
}

StepReport GradScaler::step(Steppable& optimizer, const Tensor& gradient_factor) {
  if (!options_.enabled) {
    optimizer.step({.gradient_factor = gradient_factor, .skip = {}});
    return {};
  }
  require_scale("step");
  PerOptimizer& state = state_of(optimizer);
  if (state.stage == Stage::stepped) {
    fail("step", {.argument = "optimizer",
                  .expected = "one step() per update()",
                  .found = "a second one",
                  .hint = "call update() first"});
  }
  check_use();
  if (state.stage == Stage::ready) unscale(optimizer);
  if (!state.found_inf.defined()) {
    fail("step", {.argument = "optimizer",
                  .expected = "gradients to check for infinities",
                  .found = "none",
                  .hint = "call backward() before step()"});
  }
  StepReport report;
  report.found_inf_ = backend::AsyncScalar(state.found_inf);
  report.first_bad_ = backend::AsyncScalar(state.first_bad);
  report.scale_ = backend::AsyncScalar(state.scale);
  report.checked_ = state.checked;
  report.at_scale_one_ = resting_scale_ > 0;
  report.warnings_ = use_->warnings;
  optimizer.step({.gradient_factor = gradient_factor, .skip = state.found_inf});
  state.stage = Stage::stepped;
  const Tensor& first = state.checked.front();
  if (const Tensor gradient = first.grad(); gradient.defined())
    stepped_ = {first, gradient.storage(), gradient.version()};
  return report;
}

void GradScaler::update() {
  if (!options_.enabled) return;
  require_scale("update");
  const auto& kernels = backend::of(scale_);
  Tensor found, scale;
  for (const auto& [optimizer, state] : optimizers_) {
    if (!state.found_inf.defined()) continue;
    if (!found.defined()) found = filled({1}, 0, DType::f32, scale_.device());
    scale = state.scale;
    kernels.elementwise.binary(backend::Binary::maximum, found, state.found_inf, found);
  }
  if (!found.defined()) {
    fail("update", {.argument = "scaler",
                    .expected = "an optimizer whose gradients were checked",
                    .found = "none",
                    .hint = "call step(optimizer) before update()"});
  }
  const PendingIteration iteration{backend::AsyncScalar(found), backend::AsyncScalar(scale)};
  if (resting_scale_ > 0) {
    // A retest ends: restore the scale before it, whatever the outcome.
    kernels.elementwise.fill(scale_, std::exchange(resting_scale_, 0));
  } else {
    kernels.scaler.update(scale_, trackers_, found, hyper_);
  }
  optimizers_.clear();
  use_ = std::make_shared<Use>();
  use_->stepped = std::exchange(stepped_, std::nullopt);
  clipped->reset();
  if (iteration.found_inf.captured()) {
    captured_ = iteration;
    return;
  }
  unread_.push_back(iteration);
  read(backend::capabilities(scale_.device()).is_host_readable);
}

void GradScaler::note_run() {
  if (!options_.enabled) return;
  unread_.push_back({captured_.found_inf.replayed(), captured_.scale.replayed()});
  read(false);
}

void GradScaler::read(bool all) {
  while (!unread_.empty() && (all || unread_.size() > iterations_ahead)) {
    const PendingIteration oldest = unread_.front();
    unread_.pop_front();
    note(oldest);
  }
}

void GradScaler::note(const PendingIteration& iteration) {
  const bool applied = iteration.found_inf.get() == 0;
  skipped_.note(applied);
  overflows_.note(applied);
  if (applied) return;
  if (options_.minimum_scale > 0 && iteration.scale.get() <= options_.minimum_scale) {
    throw DivergedError(
        "update", {.argument = "loss scale",
                   .expected = "finite gradients at the minimum scale " +
                               fmt::format("{}", options_.minimum_scale),
                   .found = "an overflow",
                   .hint = "scaling is not the problem: look for an exploding or NaN activation, "
                           "lower the learning rate, or use bf16"});
  }
  if (iteration.scale.get() < lost_scale)
    warn_of(
        "GradScaler: the loss scale has fallen below 2^-40 and approaches 0: gradients are "
        "infinite or NaN at any scale; look for the op that makes them (lab::diagnose), lower the "
        "learning rate, or use bf16");
  note_overflow();
}

void GradScaler::note_overflow() {
  if (options_.skip_budget > 0 && skipped_.length() >= options_.skip_budget) {
    fail(
        "update",
        {.argument = "skip_budget",
         .expected = fmt::format("an applied step within {}", options_.skip_budget),
         .found = fmt::format("{} skipped in a row, loss scale {}", skipped_.length(), get_scale()),
         .hint =
             "the run can only skip: scaling does not help it; try bf16 or a lower learning rate"});
  }
  if (options_.retest_after > 0 && overflows_.length() >= options_.retest_after) {
    overflows_ = SkipStreak();
    resting_scale_ = get_scale();
    backend::of(scale_).elementwise.fill(scale_, 1);
  }
}

void GradScaler::update(double new_scale) {
  if (!options_.enabled) return;
  require_scale("update");
  if (!(new_scale > 0) || !std::isfinite(new_scale)) {
    fail("update", {.argument = "new_scale",
                    .expected = "a finite number above 0",
                    .found = fmt::format("{}", new_scale)});
  }
  backend::of(scale_).elementwise.fill(scale_, new_scale);
  optimizers_.clear();
  use_ = std::make_shared<Use>();
}

double GradScaler::get_scale() const {
  if (!options_.enabled) return 1;
  return scale_.defined() ? scale_.item()
                          : static_cast<double>(static_cast<float>(options_.init_scale));
}

int64_t GradScaler::growth_tracker() const {
  return trackers_.defined() ? static_cast<int64_t>(trackers_.strided({}, {}, 0).item()) : 0;
}

ScalerState GradScaler::state() {
  if (!options_.enabled) return {};
  read(true);
  const bool used = trackers_.defined();
  return {{"scale", get_scale()},
          {"growth_factor", options_.growth_factor},
          {"backoff_factor", options_.backoff_factor},
          {"growth_interval", static_cast<double>(options_.growth_interval)},
          {"growth_tracker", static_cast<double>(growth_tracker())},
          {"hysteresis_tracker",
           used ? trackers_.strided({}, {}, 1).item() : static_cast<double>(options_.hysteresis)},
          {"skipped_in_a_row", static_cast<double>(skipped_.length())},
          {"overflows_in_a_row", static_cast<double>(overflows_.length())},
          {"resting_scale", resting_scale_}};
}

void GradScaler::load_state(const ScalerState& state) {
  if (!options_.enabled) return;
  const auto get = [&state](const char* key) {
    const auto found = state.find(key);
    if (found == state.end()) {
      fail("load_state", {.argument = key,
                          .expected = "the state of an enabled scaler",
                          .found = state.empty() ? "an empty state" : "none",
                          .hint = "it may come from a run whose scaler was disabled"});
    }
    return found->second;
  };
  // PyTorch's state has no counterpart of the entries beyond its own.
  const bool from_torch = state.contains("_growth_tracker");
  const auto get_own = [&](const char* key, double otherwise) {
    return from_torch ? otherwise : get(key);
  };
  GradScalerOptions options = options_;
  options.growth_factor = get("growth_factor");
  options.backoff_factor = get("backoff_factor");
  options.growth_interval = static_cast<int64_t>(get("growth_interval"));
  options.init_scale = get("scale");
  if (scale_.defined()) options.device = scale_.device();
  GradScaler loaded(options);
  const double trackers[2] = {
      get(from_torch ? "_growth_tracker" : "growth_tracker"),
      get_own("hysteresis_tracker", static_cast<double>(options.hysteresis))};
  loaded.scale_ = filled({1}, options.init_scale, DType::f32, options.device);
  loaded.trackers_ = filled({2}, 0, DType::i32, options.device);
  for (int i = 0; i < 2; ++i) {
    backend::of(loaded.trackers_)
        .elementwise.fill(loaded.trackers_.strided({1}, {1}, i), trackers[i]);
  }
  loaded.skipped_ = SkipStreak(static_cast<int64_t>(get_own("skipped_in_a_row", 0)));
  loaded.overflows_ = SkipStreak(static_cast<int64_t>(get_own("overflows_in_a_row", 0)));
  loaded.resting_scale_ = get_own("resting_scale", 0);
  loaded.optimizers_ = std::move(optimizers_);
  loaded.use_ = use_;
  loaded.warned_ = std::move(warned_);
  *this = std::move(loaded);
}

}  // namespace binade::amp
