#include "binade/optim/adagrad.h"

#include "binade/backend/backend.h"
#include "binade/backend/update_rules.h"

namespace binade::optim {

void visit_options(AdagradOptions& options, OptionVisitor& visit) {
  visit("lr", options.lr);
  visit("lr_decay", options.lr_decay);
  visit("weight_decay", options.weight_decay);
  visit("initial_accumulator_value", options.initial_sum);
  visit("eps", options.eps);
}

Adagrad::Adagrad(const std::vector<Tensor>& parameters, const AdagradOptions& options)
    : Adagrad(std::vector<AdagradGroup>{{parameters, options}}) {}

Adagrad::Adagrad(const std::vector<AdagradGroup>& groups)
    : Optimizer(Kind::adagrad, master_options_of(Kind::adagrad, groups)) {
  for (const AdagradGroup& group : groups) add_param_group(group);
}

void Adagrad::add_param_group(const AdagradGroup& group) {
  check_options(group.options);
  group_options_.push_back(group.options);
  add_group(group.parameters, group.options.lr);
}

void Adagrad::set_group_options(size_t group, const AdagradOptions& options) {
  check_options(options);
  set_group_lr(group, options.lr);
  group_options_[group] = options;
}

void Adagrad::check_options(const AdagradOptions& options) const {
  require(name(), {{.argument = "lr_decay", .value = options.lr_decay},
                   {.argument = "weight_decay", .value = options.weight_decay},
                   {.argument = "initial_sum", .value = options.initial_sum},
                   {.argument = "eps", .value = options.eps}});
}

void Adagrad::allocate(size_t group, Slot& slot) {
  Optimizer::allocate(group, slot);
  backend::of(slot.second).elementwise.fill(slot.second, group_options_[group].initial_sum);
}

void Adagrad::update(size_t group, std::span<Slot*> slots, const StepControl& control) {
  const AdagradOptions& given = group_options_[group];
  run_kernel(slots, control, [&](int64_t count) -> backend::UpdateRule {
    const double decayed = lr(group) / (1 + static_cast<double>(count - 1) * given.lr_decay);
    return backend::AdagradParams{.lr = decayed,
                                  .eps = given.eps,
                                  .weight_decay = given.weight_decay,
                                  .stochastic_rounding = options().stochastic_rounding,
                                  .seed = options().seed,
                                  .step = static_cast<uint64_t>(counts().started())};
  });
}

}  // namespace binade::optim
