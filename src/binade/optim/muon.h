#pragma once

#include <array>

#include "binade/optim/adam.h"

namespace binade::optim {

// How Muon's learning rate depends on a matrix of [a, b].
enum class MuonScale : uint8_t {
  original,         // lr * sqrt(max(1, a / b))
  match_rms_adamw,  // lr * 0.2 * sqrt(max(a, b)): updates as large as AdamW's at the same lr
};

struct MuonOptions {
  double lr = 1e-3;
  double momentum = 0.95;
  bool nesterov = true;
  double weight_decay = 0.1;  // of the weights themselves
  MuonScale scale = MuonScale::original;
  // Newton-Schulz iteration x = a x + (b (x x^T) + c (x x^T)^2) x, and its type, bf16 or f32.
  std::array<double, 3> coefficients = {3.4445, -4.7750, 2.0315};
  int steps = 5;
  double eps = 1e-7;  // smallest norm that the momentum is divided by
  DType dtype = DType::bf16;
  MasterOptions master = {};  // without stochastic rounding
};

struct MuonGroup {
  std::vector<Tensor> parameters;  // matrices
  MuonOptions options;
};

void visit_options(MuonOptions& options, OptionVisitor& visit);

// Muon (Jordan et al., 2024) as in PyTorch: the momentum of a matrix is replaced by the nearest
// orthogonal matrix, approximately. Meant for the matrices of hidden layers; embeddings, heads,
// norms and biases belong in groups of their own, which AdamW updates. Muon's groups come first in
// lr(group). Processes that share an update (MasterOptions::parts) have each of Muon's matrices
// whole or not at all.
class Muon : public Adam {
 public:
  explicit Muon(const std::vector<Tensor>& matrices, const MuonOptions& options = {});
  explicit Muon(const std::vector<MuonGroup>& matrices, const std::vector<AdamGroup>& others = {});

  // Sets the momentum of Muon's groups.
  void set_momentum(double momentum) override;

 protected:
  void update(size_t group, std::span<Slot*> slots, const StepControl& control) override;
  void allocate(size_t group, Slot& slot) override;
  std::array<double, 4> hyper_at(size_t group, int64_t count) const override;
  Sharing sharing(size_t group) const override;

 private:
  // Updates matrices of one shape, whose matmuls run as a batch of `batch`.
  void update_batch(size_t group, std::span<const Slot* const> slots, size_t batch,
                    const StepControl& control);

  std::vector<MuonOptions> muon_options_;
};

// The Newton-Schulz iteration of a matrix: about U V^T for x = U S V^T, in `options.dtype`.
Tensor orthogonalized(const Tensor& x, const MuonOptions& options = {});

// What an update of the matrix costs beside others, for ranks that share them (ranks/partition.h).
double muon_cost(const Tensor& matrix);

}  // namespace binade::optim
