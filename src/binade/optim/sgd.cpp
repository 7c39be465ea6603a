#include "binade/optim/sgd.h"

#include <fmt/format.h>

#include <cmath>

#include "binade/backend/update_rules.h"

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

void visit_options(SgdOptions& options, OptionVisitor& visit) {
  visit("lr", options.lr);
  visit("momentum", options.momentum);
  visit("dampening", options.dampening);
  visit("weight_decay", options.weight_decay);
  visit("nesterov", options.nesterov);
}

SGD::SGD(const std::vector<Tensor>& parameters, const SgdOptions& options)
    : SGD(std::vector<SgdGroup>{{parameters, options}}) {}

SGD::SGD(const std::vector<SgdGroup>& groups)
    : Optimizer(Kind::sgd, master_options_of(Kind::sgd, groups)) {
  for (const SgdGroup& group : groups) add_param_group(group);
}

void SGD::add_param_group(const SgdGroup& group) {
  check(group.options);
  group_options_.push_back(group.options);
  has_momentum_.push_back(group.options.momentum != 0);
  add_group(group.parameters, group.options.lr);
}

void SGD::set_group_options(size_t group, const SgdOptions& options) {
  check(options);
  set_group_lr(group, options.lr);
  if (options.momentum != 0) require_kept("momentum", has_momentum_[group]);
  group_options_[group] = options;
}

void SGD::set_momentum(double momentum) {
  require(name(), {{.argument = "momentum", .value = momentum}});
  for (size_t group = 0; group < group_options_.size(); ++group) {
    if (has_momentum_[group]) group_options_[group].momentum = momentum;
  }
}

void SGD::update(size_t group, std::span<Slot*> slots, const StepControl& control) {
  const SgdOptions& given = group_options_[group];
  const auto rule_at = [&](int64_t count) -> backend::UpdateRule {
    return backend::SgdParams{.lr = lr(group),
                              .momentum = given.momentum,
                              .dampening = given.dampening,
                              .weight_decay = given.weight_decay,
                              .nesterov = given.nesterov,
                              // Momentum starts as the first gradient, per parameter.
                              .first_step = count == 1,
                              .count = count,
                              .stochastic_rounding = options().stochastic_rounding,
                              .seed = options().seed,
                              .step = static_cast<uint64_t>(counts().started()),
                              .after_skips = rates_after_skips(group)};
  };
  run_kernel(slots, control, rule_at, given.momentum != 0);
}

}  // namespace binade::optim
