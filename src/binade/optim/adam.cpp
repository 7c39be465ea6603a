#include "binade/optim/adam.h"

#include <cmath>

#include "binade/backend/backend.h"

namespace binade::optim {
namespace {

void check(const char* name, const AdamOptions& options) {
  const auto refuse = [name](const char* argument, const char* expected, double found) {
    fail(name, {.argument = argument, .expected = expected, .found = std::to_string(found)});
  };
  if (!(options.beta1 >= 0 && options.beta1 < 1)) refuse("beta1", "0 up to 1", options.beta1);
  if (!(options.beta2 >= 0 && options.beta2 < 1)) refuse("beta2", "0 up to 1", options.beta2);
  if (!(options.eps >= 0) || !std::isfinite(options.eps))
    refuse("eps", "a finite number of at least 0", options.eps);
  const double decay = options.weight_decay.value_or(0);
  if (!(decay >= 0) || !std::isfinite(decay))
    refuse("weight_decay", "a finite number of at least 0", decay);
  if (options.moments != DType::f32 && options.moments != DType::bf16) {
    fail(name, {.argument = "moments",
                .expected = "f32 or bf16",
                .found = std::string(binade::name(options.moments))});
  }
}

}  // namespace

Adam::Adam(const std::vector<Tensor>& parameters, const AdamOptions& options)
    : Adam(std::vector<AdamGroup>{{parameters, options}}) {}
Adam::Adam(const std::vector<AdamGroup>& groups) : Adam("Adam", groups, false) {}

Adam::Adam(const char* name, const std::vector<AdamGroup>& groups, bool decoupled_decay)
    : Optimizer(name, groups.empty() ? MasterOptions{} : groups[0].options.master),
      decoupled_decay_(decoupled_decay) {
  if (groups.empty())
    fail(name, {.argument = "groups", .expected = "at least one", .found = "none"});
  for (const AdamGroup& group : groups) {
    check(name, group.options);
    group_options_.push_back(group.options);
    if (!group.options.weight_decay)
      group_options_.back().weight_decay = decoupled_decay ? 0.01 : 0;
    add_group(group.parameters, group.options.lr);
  }
}

AdamW::AdamW(const std::vector<Tensor>& parameters, const AdamOptions& options)
    : AdamW(std::vector<AdamGroup>{{parameters, options}}) {}
AdamW::AdamW(const std::vector<AdamGroup>& groups) : Adam("AdamW", groups, true) {}

void Adam::allocate(size_t group, Slot& slot) {
  const DType moments =
      slot.parameter.dtype() == DType::f64 ? DType::f64 : group_options_[group].moments;
  slot.first = new_state(slot.parameter, moments);
  slot.second = new_state(slot.parameter, moments);
}

void Adam::update(size_t group, std::span<Slot*> slots, const StepControl& control) {
  const AdamOptions& given = group_options_[group];
  // The moments' bias depends on a parameter's own updates.
  for (const auto& [count, peers] : by_count(slots)) {
    const auto [rate, updates, correction1, correction2] = hyper_at(group, count);
    const backend::AdamParams hyper{.lr = rate,
                                    .beta1 = given.beta1,
                                    .beta2 = given.beta2,
                                    .eps = given.eps,
                                    .weight_decay = *given.weight_decay,
                                    .correction1 = correction1,
                                    .correction2 = correction2,
                                    .count = count,
                                    .decoupled_decay = decoupled_decay_,
                                    .stochastic_rounding = options().stochastic_rounding,
                                    .seed = options().seed,
                                    .step = static_cast<uint64_t>(started()),
                                    .after_skips = after_skips(group)};
    backend::of(slots[0]->parameter).optimizer.adam(peers.items, hyper, control_of(control, peers));
  }
}

std::array<double, 4> Adam::hyper_at(size_t group, int64_t count) const {
  const AdamOptions& given = group_options_[group];
  const auto updates = static_cast<double>(count);
  return {lr(group), updates, 1 - std::pow(given.beta1, updates),
          1 - std::pow(given.beta2, updates)};
}

}  // namespace binade::optim
