#include "binade/optim/lion.h"

#include "binade/backend/backend.h"

namespace binade::optim {

Lion::Lion(const std::vector<Tensor>& parameters, const LionOptions& options)
    : Lion(std::vector<LionGroup>{{parameters, options}}) {}

Lion::Lion(const std::vector<LionGroup>& groups)
    : Optimizer("Lion", groups.empty() ? MasterOptions{} : groups[0].options.master) {
  if (groups.empty())
    fail("Lion", {.argument = "groups", .expected = "at least one", .found = "none"});
  for (const LionGroup& group : groups) {
    require("Lion", {{.argument = "beta1", .value = group.options.beta1, .high = 1},
                     {.argument = "beta2", .value = group.options.beta2, .high = 1},
                     {.argument = "weight_decay", .value = group.options.weight_decay}});
    const DType momentum = group.options.momentum;
    if (momentum != DType::f32 && momentum != DType::bf16) {
      fail("Lion", {.argument = "momentum",
                    .expected = "f32 or bf16",
                    .found = std::string(binade::name(momentum))});
    }
    group_options_.push_back(group.options);
    add_group(group.parameters, group.options.lr);
  }
}

void Lion::allocate(size_t group, Slot& slot) {
  refuse_gpu(slot.parameter);
  slot.first = new_state(
      slot, slot.parameter.dtype() == DType::f64 ? DType::f64 : group_options_[group].momentum);
}

void Lion::set_momentum(double beta1) {
  require("Lion", {{.argument = "momentum", .value = beta1, .high = 1}});
  for (LionOptions& options : group_options_) options.beta1 = beta1;
}

void Lion::update(size_t group, std::span<Slot*> slots, const StepControl& control) {
  const LionOptions& given = group_options_[group];
  const backend::LionParams hyper{.lr = lr(group),
                                  .beta1 = given.beta1,
                                  .beta2 = given.beta2,
                                  .weight_decay = given.weight_decay,
                                  .stochastic_rounding = options().stochastic_rounding,
                                  .seed = options().seed,
                                  .step = static_cast<uint64_t>(started())};
  for (const auto& [count, peers] : by_count(slots))
    backend::of(slots[0]->parameter).optimizer.lion(peers.items, hyper, control_of(control, peers));
}

}  // namespace binade::optim
