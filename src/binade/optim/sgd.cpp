#include "binade/optim/sgd.h"

#include <fmt/format.h>

#include <cmath>

#include "binade/backend/backend.h"

namespace binade::optim {
namespace {

void check(const SgdOptions& options) {
  const std::pair<const char*, double> checked[] = {{"momentum", options.momentum},
                                                    {"dampening", options.dampening},
                                                    {"weight_decay", options.weight_decay}};
  for (const auto& [argument, value] : checked) {
    if (value >= 0 && std::isfinite(value)) continue;
    fail("SGD", {.argument = argument,
                 .expected = "a finite number of at least 0",
                 .found = fmt::format("{}", value)});
  }
  if (options.nesterov && (options.momentum == 0 || options.dampening != 0)) {
    fail("SGD", {.argument = "nesterov",
                 .expected = "momentum and no dampening",
                 .found = "momentum " + fmt::format("{}", options.momentum) + ", dampening " +
                          fmt::format("{}", options.dampening)});
  }
}

}  // namespace

SGD::SGD(const std::vector<Tensor>& parameters, const SgdOptions& options)
    : SGD(std::vector<SgdGroup>{{parameters, options}}) {}

SGD::SGD(const std::vector<SgdGroup>& groups)
    : Optimizer("SGD", groups.empty() ? MasterOptions{} : groups[0].options.master) {
  if (groups.empty())
    fail("SGD", {.argument = "groups", .expected = "at least one", .found = "none"});
  for (const SgdGroup& group : groups) {
    check(group.options);
    group_options_.push_back(group.options);
    has_momentum_.push_back(group.options.momentum != 0);
    add_group(group.parameters, group.options.lr);
  }
}

void SGD::allocate(size_t group, Slot& slot) {
  if (!has_momentum_[group]) return;
  slot.first = new_state(slot, accumulation_type(slot.parameter.dtype()));
}

void SGD::set_momentum(double momentum) {
  require("SGD", {{.argument = "momentum", .value = momentum}});
  for (size_t group = 0; group < group_options_.size(); ++group) {
    if (has_momentum_[group]) group_options_[group].momentum = momentum;
  }
}

void SGD::update(size_t group, std::span<Slot*> slots, const StepControl& control) {
  const SgdOptions& given = group_options_[group];
  // Momentum starts as the first gradient, per parameter.
  for (auto& [count, peers] : by_count(slots)) {
    if (given.momentum == 0) {
      for (backend::UpdateItem& item : peers.items) item.first = {};
    }
    const backend::SgdParams hyper{.lr = lr(group),
                                   .momentum = given.momentum,
                                   .dampening = given.dampening,
                                   .weight_decay = given.weight_decay,
                                   .nesterov = given.nesterov,
                                   .first_step = count == 1,
                                   .count = count,
                                   .stochastic_rounding = options().stochastic_rounding,
                                   .seed = options().seed,
                                   .step = static_cast<uint64_t>(started()),
                                   .after_skips = after_skips(group)};
    backend::of(slots[0]->parameter).optimizer.sgd(peers.items, hyper, control_of(control, peers));
  }
}

}  // namespace binade::optim
