#include "binade/optim/nadam.h"

#include <cmath>

#include "binade/backend/update_rules.h"

namespace binade::optim {
namespace {

// beta1 at the update `count`.
double momentum_at(const NadamOptions& options, int64_t count) {
  const double exponent = static_cast<double>(count) * options.momentum_decay;
  return options.beta1 * (1 - 0.5 * std::pow(0.96, exponent));
}

// The product of momentum_at() up to `count`. It is next to nothing soon, and then ends.
double momentum_product(const NadamOptions& options, int64_t count) {
  double product = 1;
  for (int64_t i = 1; i <= count && product > 0; ++i) product *= momentum_at(options, i);
  return product;
}

}  // namespace

void visit_options(NadamOptions& options, OptionVisitor& visit) {
  visit("lr", options.lr);
  visit("betas", {&options.beta1, &options.beta2});
  visit("eps", options.eps);
  visit("weight_decay", options.weight_decay);
  visit("momentum_decay", options.momentum_decay);
  visit("decoupled_weight_decay", options.decoupled_decay);
  visit("moments", options.moments);
}

NAdam::NAdam(const std::vector<Tensor>& parameters, const NadamOptions& options)
    : NAdam(std::vector<NadamGroup>{{parameters, options}}) {}

NAdam::NAdam(const std::vector<NadamGroup>& groups)
    : Optimizer(Kind::nadam, master_options_of(Kind::nadam, groups)) {
  for (const NadamGroup& group : groups) {
    const NadamOptions& given = group.options;
    require(name(), {{.argument = "beta1", .value = given.beta1, .high = 1},
                     {.argument = "beta2", .value = given.beta2, .high = 1},
                     {.argument = "eps", .value = given.eps},
                     {.argument = "weight_decay", .value = given.weight_decay},
                     {.argument = "momentum_decay", .value = given.momentum_decay}});
    require_moments(given.moments, {DType::f32, DType::bf16});
    group_options_.push_back(given);
    add_group(group.parameters, given.lr);
  }
}

void NAdam::set_momentum(double beta1) {
  require(name(), {{.argument = "momentum", .value = beta1, .high = 1}});
  for (NadamOptions& options : group_options_) options.beta1 = beta1;
}

void NAdam::update(size_t group, std::span<Slot*> slots, const StepControl& control) {
  const NadamOptions& given = group_options_[group];
  run_kernel(slots, control, [&](int64_t count) -> backend::UpdateRule {
    const double product = momentum_product(given, count);
    const double now = momentum_at(given, count), next = momentum_at(given, count + 1);
    return backend::NadamParams{
        backend::AdamParams{.lr = lr(group),
                            .beta1 = given.beta1,
                            .beta2 = given.beta2,
                            .eps = given.eps,
                            .weight_decay = given.weight_decay,
                            .correction2 = 1 - std::pow(given.beta2, static_cast<double>(count)),
                            .count = count,
                            .decoupled_decay = given.decoupled_decay,
                            .stochastic_rounding = options().stochastic_rounding,
                            .seed = options().seed,
                            .step = static_cast<uint64_t>(counts().started())},
        (1 - now) / (1 - product), next / (1 - product * next)};
  });
}

}  // namespace binade::optim
