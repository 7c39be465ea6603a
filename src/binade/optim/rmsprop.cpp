#include "binade/optim/rmsprop.h"

#include "binade/backend/update_rules.h"

namespace binade::optim {

void visit_options(RmspropOptions& options, OptionVisitor& visit) {
  visit("lr", options.lr);
  visit("alpha", options.alpha);
  visit("eps", options.eps);
  visit("weight_decay", options.weight_decay);
  visit("momentum", options.momentum);
  visit("centered", options.centered);
}

RMSprop::RMSprop(const std::vector<Tensor>& parameters, const RmspropOptions& options)
    : RMSprop(std::vector<RmspropGroup>{{parameters, options}}) {}

RMSprop::RMSprop(const std::vector<RmspropGroup>& groups)
    : Optimizer(Kind::rmsprop, master_options_of(Kind::rmsprop, groups)) {
  for (const RmspropGroup& group : groups) add_param_group(group);
}

void RMSprop::add_param_group(const RmspropGroup& group) {
  check_options(group.options);
  group_options_.push_back(group.options);
  has_momentum_.push_back(group.options.momentum != 0);
  add_group(group.parameters, group.options.lr);
}

void RMSprop::set_group_options(size_t group, const RmspropOptions& options) {
  check_options(options);
  set_group_lr(group, options.lr);
  if (options.momentum != 0) require_kept("momentum", has_momentum_[group]);
  if (options.centered) require_kept("centered", group_options_[group].centered);
  group_options_[group] = options;
}

void RMSprop::check_options(const RmspropOptions& options) const {
  require(name(), {{.argument = "alpha", .value = options.alpha, .high = 1},
                   {.argument = "eps", .value = options.eps},
                   {.argument = "weight_decay", .value = options.weight_decay},
                   {.argument = "momentum", .value = options.momentum}});
}

bool RMSprop::keeps(size_t group, std::string_view entry) const {
  if (entry == "first") return has_momentum_[group];
  return entry != "third" || group_options_[group].centered;
}

void RMSprop::set_momentum(double momentum) {
  require(name(), {{.argument = "momentum", .value = momentum}});
  for (size_t group = 0; group < group_options_.size(); ++group) {
    if (has_momentum_[group]) group_options_[group].momentum = momentum;
  }
}

void RMSprop::update(size_t group, std::span<Slot*> slots, const StepControl& control) {
  const RmspropOptions& given = group_options_[group];
  const auto rule_at = [&](int64_t) -> backend::UpdateRule {
    return backend::RmspropParams{.lr = lr(group),
                                  .alpha = given.alpha,
                                  .eps = given.eps,
                                  .weight_decay = given.weight_decay,
                                  .momentum = given.momentum,
                                  .stochastic_rounding = options().stochastic_rounding,
                                  .seed = options().seed,
                                  .step = static_cast<uint64_t>(counts().started())};
  };
  run_kernel(slots, control, rule_at, given.momentum != 0);
}

}  // namespace binade::optim
