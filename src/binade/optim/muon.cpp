#include "binade/optim/muon.h"

#include <algorithm>
#include <cmath>

#include "binade/amp/autocast.h"
#include "binade/autograd/grad_mode.h"
#include "binade/backend/backend.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/matmul/matmul.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/shape.h"

namespace binade::optim {
namespace {

constexpr int most_steps = 99;  // PyTorch's limit

double rate_of(double lr, MuonScale scale, const Tensor& matrix) {
  const auto rows = static_cast<double>(matrix.size(0)),
             columns = static_cast<double>(matrix.size(1));
  if (scale == MuonScale::match_rms_adamw) return lr * 0.2 * std::sqrt(std::max(rows, columns));
  return lr * std::sqrt(std::max(1.0, rows / columns));
}

}  // namespace

Tensor orthogonalized(const Tensor& x, const MuonOptions& options) {
  if (x.rank() != 2)
    fail("Muon", {.argument = "parameters", .expected = "matrices", .found = describe(x)});
  const NoGrad no_grad;
  const amp::Autocast plain(amp::disabled_autocast());
  // The smaller side first, which makes the products smaller.
  const bool is_tall = x.size(0) > x.size(1);
  Tensor y = cast(x, options.dtype);
  if (is_tall) y = contiguous(transpose(y, 0, 1));
  y = y / clamp(norm(y), options.eps, INFINITY);  // no singular value is larger than 1
  const auto [a, b, c] = options.coefficients;
  for (int i = 0; i < options.steps; ++i) {
    const Tensor gram = mm(y, transpose(y, 0, 1));
    y = addmm(y, addmm(gram, gram, gram, b, c), y, a);
  }
  return is_tall ? transpose(y, 0, 1) : y;
}

Muon::Muon(const std::vector<Tensor>& matrices, const MuonOptions& options)
    : Muon(std::vector<MuonGroup>{{matrices, options}}) {}

Muon::Muon(const std::vector<MuonGroup>& matrices, const std::vector<AdamGroup>& others)
    : Adam("Muon", matrices.empty() ? MasterOptions{} : matrices[0].options.master,
           WeightDecay::decoupled) {
  if (matrices.empty())
    fail("Muon", {.argument = "matrices", .expected = "at least one group", .found = "none"});
  refuse_stochastic_rounding();
  for (const MuonGroup& group : matrices) {
    const MuonOptions& given = group.options;
    require("Muon", {{.argument = "momentum", .value = given.momentum, .high = 1},
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
  refuse_gpu(slot.parameter);
  if (slot.parameter.rank() != 2) {
    fail("Muon", {.argument = "matrices",
                  .expected = "parameters with two axes",
                  .found = describe(slot.parameter),
                  .hint = "pass the others in AdamW's groups"});
  }
  slot.first = new_state(slot.parameter, accumulation_type(slot.parameter.dtype()));
}

void Muon::set_momentum(double momentum) {
  require("Muon", {{.argument = "momentum", .value = momentum, .high = 1}});
  for (MuonOptions& options : muon_options_) options.momentum = momentum;
}

std::array<double, 4> Muon::hyper_at(size_t group, int64_t count) const {
  if (group >= muon_options_.size()) return Adam::hyper_at(group, count);
  return Optimizer::hyper_at(group, count);  // NOLINT(bugprone-parent-virtual-call): not Adam's
}

void Muon::update(size_t group, std::span<Slot*> slots, const StepControl& control) {
  if (group >= muon_options_.size()) return Adam::update(group, slots, control);
  const amp::Autocast plain(amp::disabled_autocast());
  const MuonOptions& given = muon_options_[group];
  for (const Slot* slot : slots) {
    const Tensor gradient = gradient_of(*slot, control);
    const Tensor& momentum = slot->first;
    backend::of(momentum).elementwise.copy(momentum + (gradient - momentum) * (1 - given.momentum),
                                           momentum);
    const Tensor direction =
        given.nesterov ? gradient + (momentum - gradient) * given.momentum : momentum;
    const Tensor weight = cast(master_in(*slot), momentum.dtype());
    const Tensor change = cast(orthogonalized(direction, given), momentum.dtype());
    const double keep = 1 - lr(group) * given.weight_decay;
    write_master(*slot, (keep == 1 ? weight : weight * keep) -
                            change * rate_of(lr(group), given.scale, weight));
  }
}

}  // namespace binade::optim
