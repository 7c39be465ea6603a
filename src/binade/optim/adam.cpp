#include "binade/optim/adam.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "binade/backend/update_rules.h"
#include "binade/formats/dynamic_code.h"

namespace binade::optim {
namespace {

// bitsandbytes' min_8bit_size: below it, 8 bits save little, and biases and norms, which matter
// most, are that small.
constexpr int64_t smallest_in_8_bits = 4096;

void check(std::string_view name, const AdamOptions& options) {
  const auto refuse = [name](const char* argument, const char* expected, double found) {
    fail(name, {.argument = argument, .expected = expected, .found = fmt::format("{}", found)});
  };
  if (!(options.beta1 >= 0 && options.beta1 < 1)) refuse("beta1", "0 up to 1", options.beta1);
  if (!(options.beta2 >= 0 && options.beta2 < 1)) refuse("beta2", "0 up to 1", options.beta2);
  if (!(options.eps >= 0) || !std::isfinite(options.eps))
    refuse("eps", "a finite number of at least 0", options.eps);
  const double decay = options.weight_decay.value_or(0);
  if (!(decay >= 0) || !std::isfinite(decay))
    refuse("weight_decay", "a finite number of at least 0", decay);
  const DType moments = options.moments;
  if (moments != DType::f32 && moments != DType::bf16 && moments != DType::u8) {
    fail(name, {.argument = "moments",
                .expected = "f32, bf16 or u8",
                .found = std::string(binade::name(moments))});
  }
  if (options.amsgrad && moments == DType::u8) {
    fail(name, {.argument = "moments",
                .expected = "f32 or bf16 with amsgrad",
                .found = std::string(binade::name(moments))});
  }
}

}  // namespace

void visit_options(AdamOptions& options, OptionVisitor& visit) {
  visit("lr", options.lr);
  visit("betas", {&options.beta1, &options.beta2});
  visit("eps", options.eps);
  visit("weight_decay", options.weight_decay);
  visit("amsgrad", options.amsgrad);
  visit("moments", options.moments);
}

Adam::Adam(const std::vector<Tensor>& parameters, const AdamOptions& options)
    : Adam(std::vector<AdamGroup>{{parameters, options}}) {}
Adam::Adam(const std::vector<AdamGroup>& groups) : Adam(Kind::adam, groups) {}

Adam::Adam(Kind kind, MasterOptions options)
    : Optimizer(kind, std::move(options)), has_decoupled_decay_(kind != Kind::adam) {}

Adam::Adam(Kind kind, const std::vector<AdamGroup>& groups)
    : Adam(kind, master_options_of(kind, groups)) {
  for (const AdamGroup& group : groups) add_adam_group(group);
}

void Adam::add_adam_group(const AdamGroup& group) {
  check(name(), group.options);
  group_options_.resize(group_count());
  group_options_.push_back(group.options);
  if (!group.options.weight_decay)
    group_options_.back().weight_decay = has_decoupled_decay_ ? 0.01 : 0;
  add_group(group.parameters, group.options.lr);
}

void Adam::set_group_options(size_t group, const AdamOptions& options) {
  check(name(), options);
  AdamOptions& own = group_options_.at(group);
  set_group_lr(group, options.lr);
  if (options.amsgrad) require_kept("amsgrad", own.amsgrad);
  require_kept("moments", options.moments == own.moments);
  const std::optional<double> decay =
      options.weight_decay ? options.weight_decay : own.weight_decay;
  own = options;
  own.weight_decay = decay;
}

AdamW::AdamW(const std::vector<Tensor>& parameters, const AdamOptions& options)
    : AdamW(std::vector<AdamGroup>{{parameters, options}}) {}
AdamW::AdamW(const std::vector<AdamGroup>& groups) : Adam(Kind::adamw, groups) {}

void Adam::allocate(size_t group, Slot& slot) {
  const AdamOptions& given = group_options_[group];
  const Tensor& parameter = slot.parameter;
  if (given.amsgrad) refuse_gpu(parameter, "amsgrad");
  if (given.moments == DType::u8 && slot.part.count > 0 &&
      slot.part.begin % formats::dynamic_block != 0) {
    fail(name(), {.argument = "parts",
                  .expected = "whole blocks of 8-bit moments, of " +
                              std::to_string(formats::dynamic_block) + " elements",
                  .found = "a part from element " + std::to_string(slot.part.begin)});
  }
  allocate_state(describe(Kind::adam).state, group, slot);
  if (slot.first.dtype() != DType::u8) return;
  const Shape blocks{state_elements("first_scale", slot.part.count)};
  slot.first_scale = new_state(parameter, blocks, DType::f32);
  slot.second_scale = new_state(parameter, blocks, DType::f32);
}

DType Adam::moments_type(size_t group, const Tensor& parameter) const {
  const DType type = group_options_[group].moments;
  return type == DType::u8 && parameter.numel() < smallest_in_8_bits ? DType::f32 : type;
}

bool Adam::keeps(size_t group, std::string_view entry) const {
  return entry != "third" || group_options_[group].amsgrad;
}

void Adam::set_momentum(double beta1) {
  require(name(), {{.argument = "momentum", .value = beta1, .high = 1}});
  for (AdamOptions& options : group_options_) options.beta1 = beta1;
}

void Adam::update(size_t group, std::span<Slot*> slots, const StepControl& control) {
  const AdamOptions& given = group_options_[group];
  // The moments' bias depends on a parameter's own updates.
  run_kernel(slots, control, [&](int64_t count) -> backend::UpdateRule {
    const auto [rate, updates, correction1, correction2] = hyper_at(group, count);
    return backend::AdamParams{.lr = rate,
                               .beta1 = given.beta1,
                               .beta2 = given.beta2,
                               .eps = given.eps,
                               .weight_decay = *given.weight_decay,
                               .correction1 = correction1,
                               .correction2 = correction2,
                               .count = count,
                               .decoupled_decay = has_decoupled_decay_,
                               .stochastic_rounding = options().stochastic_rounding,
                               .seed = options().seed,
                               .step = static_cast<uint64_t>(counts().started()),
                               .after_skips = rates_after_skips(group)};
  });
}

std::array<double, 4> Adam::hyper_at(size_t group, int64_t count) const {
  const AdamOptions& given = group_options_[group];
  const auto updates = static_cast<double>(count);
  return {lr(group), updates, 1 - std::pow(given.beta1, updates),
          1 - std::pow(given.beta2, updates)};
}

}  // namespace binade::optim
