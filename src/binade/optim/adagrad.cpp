#include "binade/optim/adagrad.h"

#include "binade/backend/backend.h"

namespace binade::optim {

Adagrad::Adagrad(const std::vector<Tensor>& parameters, const AdagradOptions& options)
    : Adagrad(std::vector<AdagradGroup>{{parameters, options}}) {}

Adagrad::Adagrad(const std::vector<AdagradGroup>& groups)
    : Optimizer("Adagrad", groups.empty() ? MasterOptions{} : groups[0].options.master) {
  if (groups.empty())
    fail("Adagrad", {.argument = "groups", .expected = "at least one", .found = "none"});
  for (const AdagradGroup& group : groups) {
    require("Adagrad", {{.argument = "lr_decay", .value = group.options.lr_decay},
                        {.argument = "weight_decay", .value = group.options.weight_decay},
                        {.argument = "initial_sum", .value = group.options.initial_sum},
                        {.argument = "eps", .value = group.options.eps}});
    group_options_.push_back(group.options);
    add_group(group.parameters, group.options.lr);
  }
}

void Adagrad::allocate(size_t group, Slot& slot) {
  refuse_gpu(slot.parameter);
  slot.second = new_state(slot, accumulation_type(slot.parameter.dtype()));
  backend::of(slot.second).elementwise.fill(slot.second, group_options_[group].initial_sum);
}

void Adagrad::update(size_t group, std::span<Slot*> slots, const StepControl& control) {
  const AdagradOptions& given = group_options_[group];
  for (const auto& [count, peers] : by_count(slots)) {
    const double decayed = lr(group) / (1 + static_cast<double>(count - 1) * given.lr_decay);
    const backend::AdagradParams hyper{.lr = decayed,
                                       .eps = given.eps,
                                       .weight_decay = given.weight_decay,
                                       .stochastic_rounding = options().stochastic_rounding,
                                       .seed = options().seed,
                                       .step = static_cast<uint64_t>(started())};
    backend::of(slots[0]->parameter)
        .optimizer.adagrad(peers.items, hyper, control_of(control, peers));
  }
}

}  // namespace binade::optim
