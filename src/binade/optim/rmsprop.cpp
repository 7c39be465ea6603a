#include "binade/optim/rmsprop.h"

#include "binade/backend/backend.h"

namespace binade::optim {

RMSprop::RMSprop(const std::vector<Tensor>& parameters, const RmspropOptions& options)
    : RMSprop(std::vector<RmspropGroup>{{parameters, options}}) {}

RMSprop::RMSprop(const std::vector<RmspropGroup>& groups)
    : Optimizer("RMSprop", groups.empty() ? MasterOptions{} : groups[0].options.master) {
  if (groups.empty())
    fail("RMSprop", {.argument = "groups", .expected = "at least one", .found = "none"});
  for (const RmspropGroup& group : groups) {
    require("RMSprop", {{.argument = "alpha", .value = group.options.alpha, .high = 1},
                        {.argument = "eps", .value = group.options.eps},
                        {.argument = "weight_decay", .value = group.options.weight_decay},
                        {.argument = "momentum", .value = group.options.momentum}});
    group_options_.push_back(group.options);
    has_momentum_.push_back(group.options.momentum != 0);
    add_group(group.parameters, group.options.lr);
  }
}

void RMSprop::allocate(size_t group, Slot& slot) {
  refuse_gpu(slot.parameter);
  const RmspropOptions& given = group_options_[group];
  const DType dtype = accumulation_type(slot.parameter.dtype());
  if (has_momentum_[group]) slot.first = new_state(slot, dtype);
  slot.second = new_state(slot, dtype);
  if (given.centered) slot.third = new_state(slot, dtype);
}

void RMSprop::set_momentum(double momentum) {
  require("RMSprop", {{.argument = "momentum", .value = momentum}});
  for (size_t group = 0; group < group_options_.size(); ++group) {
    if (has_momentum_[group]) group_options_[group].momentum = momentum;
  }
}

void RMSprop::update(size_t group, std::span<Slot*> slots, const StepControl& control) {
  const RmspropOptions& given = group_options_[group];
  const backend::RmspropParams hyper{.lr = lr(group),
                                     .alpha = given.alpha,
                                     .eps = given.eps,
                                     .weight_decay = given.weight_decay,
                                     .momentum = given.momentum,
                                     .stochastic_rounding = options().stochastic_rounding,
                                     .seed = options().seed,
                                     .step = static_cast<uint64_t>(started())};
  for (auto& [count, peers] : by_count(slots)) {
    if (given.momentum == 0) {
      for (backend::UpdateItem& item : peers.items) item.first = {};
    }
    backend::of(slots[0]->parameter)
        .optimizer.rmsprop(peers.items, hyper, control_of(control, peers));
  }
}

}  // namespace binade::optim
