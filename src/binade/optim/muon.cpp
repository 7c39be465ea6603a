#include "binade/optim/muon.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "binade/backend/backend.h"
#include "binade/backend/capabilities.h"
#include "binade/backend/update_rules.h"
#include "binade/base/error.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/optim/newton_schulz.h"

namespace binade::optim {
namespace {

constexpr int most_steps = 99;  // PyTorch's limit
// Matrices of one shape that a GPU multiplies at once. One number, so that a matrix is multiplied
// alike whatever others its owner has. Four of GPT-2's fill an H200.
constexpr size_t gpu_batch = 4;

// The learning rate of a matrix: (lr * factor) * root.
struct RateScale {
  double factor = 1, root = 1;
};

RateScale scale_of(MuonScale scale, const Tensor& matrix) {
  const auto rows = static_cast<double>(matrix.size(0)),
             columns = static_cast<double>(matrix.size(1));
  if (scale == MuonScale::match_rms_adamw) return {0.2, std::sqrt(std::max(rows, columns))};
  return {1, std::sqrt(std::max(1.0, rows / columns))};
}

// Row `index` of [rows, elements].
Tensor row_of(const Tensor& rows, size_t index) {
  const int64_t elements = rows.size(1);
  return rows.strided({elements}, {1}, static_cast<int64_t>(index) * elements);
}

}  // namespace

Tensor orthogonalized(const Tensor& x, const MuonOptions& options) {
  return orthogonalized(cast(x, options.dtype), NewtonSchulz{.coefficients = options.coefficients,
                                                             .steps = options.steps,
                                                             .eps = options.eps});
}

double muon_cost(const Tensor& matrix) {
  return newton_schulz_cost(matrix.size(0), matrix.size(1));
}

void visit_options(MuonOptions& options, OptionVisitor& visit) {
  visit("lr", options.lr);
  visit("weight_decay", options.weight_decay);
  visit("momentum", options.momentum);
  visit("nesterov", options.nesterov);
  auto& [a, b, c] = options.coefficients;
  visit("ns_coefficients", {&a, &b, &c});
  visit("eps", options.eps);
  visit("ns_steps", options.steps);
  std::string scale = options.scale == MuonScale::original ? "original" : "match_rms_adamw";
  visit("adjust_lr_fn", scale);
  if (scale != "original" && scale != "match_rms_adamw") {
    fail("Muon", {.argument = "adjust_lr_fn",
                  .expected = "original or match_rms_adamw",
                  .found = "'" + scale + "'"});
  }
  options.scale = scale == "original" ? MuonScale::original : MuonScale::match_rms_adamw;
}

Muon::Muon(const std::vector<Tensor>& matrices, const MuonOptions& options)
    : Muon(std::vector<MuonGroup>{{matrices, options}}) {}

Muon::Muon(const std::vector<MuonGroup>& matrices, const std::vector<AdamGroup>& others)
    : Adam(Kind::muon, master_options_of(Kind::muon, matrices)) {
  refuse_stochastic_rounding();
  for (const MuonGroup& group : matrices) {
    const MuonOptions& given = group.options;
    require(name(), {{.argument = "momentum", .value = given.momentum, .high = 1},
                     {.argument = "weight_decay", .value = given.weight_decay},
                     {.argument = "eps", .value = given.eps},
                     {.argument = "steps",
                      .value = static_cast<double>(given.steps),
                      .low = 1,
                      .high = most_steps + 1}});
    if (given.dtype != DType::bf16 && given.dtype != DType::f32) {
      fail("Muon", {.argument = "dtype",
                    .expected = "bf16 or f32",
                    .found = std::string(binade::name(given.dtype))});
    }
    muon_options_.push_back(given);
    add_group(group.parameters, given.lr);
  }
  for (const AdamGroup& group : others) add_adam_group(group);
}

void Muon::allocate(size_t group, Slot& slot) {
  if (group >= muon_options_.size()) return Adam::allocate(group, slot);
  if (slot.parameter.rank() != 2) {
    fail("Muon", {.argument = "matrices",
                  .expected = "parameters with two axes",
                  .found = describe(slot.parameter),
                  .hint = "pass the others in AdamW's groups"});
  }
  allocate_state(describe(Kind::muon).state, group, slot);
}

void Muon::set_momentum(double momentum) {
  require(name(), {{.argument = "momentum", .value = momentum, .high = 1}});
  for (MuonOptions& options : muon_options_) options.momentum = momentum;
}

Sharing Muon::sharing(size_t group) const {
  return group < muon_options_.size() ? Sharing::parameters : Sharing::elements;
}

std::array<double, 4> Muon::hyper_at(size_t group, int64_t count) const {
  if (group >= muon_options_.size()) return Adam::hyper_at(group, count);
  return Optimizer::hyper_at(group, count);  // NOLINT(bugprone-parent-virtual-call): not Adam's
}

void Muon::update(size_t group, std::span<Slot*> slots, const StepControl& control) {
  if (group >= muon_options_.size()) return Adam::update(group, slots, control);
  std::map<std::pair<int64_t, int64_t>, std::vector<const Slot*>> by_shape;
  for (const Slot* slot : slots) {
    if (!slot->is_elsewhere())
      by_shape[{slot->parameter.size(0), slot->parameter.size(1)}].push_back(slot);
  }
  const size_t most =
      backend::capabilities(slots[0]->parameter.device()).is_massively_parallel ? gpu_batch : 1;
  for (const auto& [shape, alike] : by_shape) {
    for (size_t begin = 0; begin < alike.size(); begin += most)
      update_batch(group, std::span(alike).subspan(begin, std::min(most, alike.size() - begin)),
                   most, control);
  }
}

void Muon::update_batch(size_t group, std::span<const Slot* const> slots, size_t batch,
                        const StepControl& control) {
  const MuonOptions& given = muon_options_[group];
  const Tensor& like = slots[0]->parameter;
  const auto& kernels = backend::of(like);
  const auto count = static_cast<int64_t>(batch);
  // In the memory order of the parameters, first the momentum's directions, then the changes.
  const Tensor rows = Tensor::empty(
      {count, like.numel()}, like.dtype() == DType::f64 ? DType::f64 : given.dtype, like.device());
  if (slots.size() < batch) kernels.elementwise.fill(rows, 0);
  std::vector<backend::UpdateItem> items;
  for (size_t i = 0; i < slots.size(); ++i)
    items.push_back({.master = row_of(rows, i),
                     .gradient = slots[i]->used_gradient(),
                     .first = slots[i]->first});
  kernels.optimizer.update(
      items, backend::MuonMomentumParams{.momentum = given.momentum, .nesterov = given.nesterov},
      update_control(control, *slots[0]));
  const Strides& strides = like.strides();
  const Tensor matrices = batch == 1 ? rows.strided(like.shape(), strides, 0)
                                     : rows.strided({count, like.size(0), like.size(1)},
                                                    {like.numel(), strides[0], strides[1]}, 0);
  kernels.elementwise.copy(orthogonalized(matrices, given), matrices);
  items.clear();
  for (size_t i = 0; i < slots.size(); ++i) {
    items.push_back(update_item(*slots[i]));
    items.back().gradient = row_of(rows, i);
    items.back().first = {};
  }
  const RateScale scale = scale_of(given.scale, like);
  kernels.optimizer.update(items,
                           backend::MuonParams{.lr = lr(group),
                                               .weight_decay = given.weight_decay,
                                               .factor = scale.factor,
                                               .root = scale.root,
                                               .after_skips = rates_after_skips(group)},
                           update_control({.skip = control.skip}, *slots[0]));
}

}  // namespace binade::optim
