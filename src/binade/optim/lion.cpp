#include "binade/optim/lion.h"

#include "binade/backend/update_rules.h"

namespace binade::optim {

void visit_options(LionOptions& options, OptionVisitor& visit) {
  visit("lr", options.lr);
  visit("betas", {&options.beta1, &options.beta2});
  visit("weight_decay", options.weight_decay);
  visit("moments", options.momentum);
}

Lion::Lion(const std::vector<Tensor>& parameters, const LionOptions& options)
    : Lion(std::vector<LionGroup>{{parameters, options}}) {}

Lion::Lion(const std::vector<LionGroup>& groups)
    : Optimizer(Kind::lion, master_options_of(Kind::lion, groups)) {
  for (const LionGroup& group : groups) {
    require(name(), {{.argument = "beta1", .value = group.options.beta1, .high = 1},
                     {.argument = "beta2", .value = group.options.beta2, .high = 1},
                     {.argument = "weight_decay", .value = group.options.weight_decay}});
    require_moments(group.options.momentum, {DType::f32, DType::bf16});
    group_options_.push_back(group.options);
    add_group(group.parameters, group.options.lr);
  }
}

void Lion::set_momentum(double beta1) {
  require(name(), {{.argument = "momentum", .value = beta1, .high = 1}});
  for (LionOptions& options : group_options_) options.beta1 = beta1;
}

void Lion::update(size_t group, std::span<Slot*> slots, const StepControl& control) {
  const LionOptions& given = group_options_[group];
  run_kernel(slots, control, [&](int64_t) -> backend::UpdateRule {
    return backend::LionParams{.lr = lr(group),
                               .beta1 = given.beta1,
                               .beta2 = given.beta2,
                               .weight_decay = given.weight_decay,
                               .stochastic_rounding = options().stochastic_rounding,
                               .seed = options().seed,
                               .step = static_cast<uint64_t>(counts().started())};
  });
}

}  // namespace binade::optim
