#pragma once

#include <memory>
#include <vector>

#include "binade/amp/grad_scaler.h"
#include "binade/base/function_ref.h"
#include "binade/dist/fold.h"
#include "binade/dist/fp8_maxima.h"
#include "binade/dist/tally.h"
#include "binade/optim/clip.h"

namespace binade::dist {

struct ShardedOptions {
  // Of a whole step, on all ranks together: at least as many as ranks. This number, not that of the
  // ranks, defines the arithmetic.
  int64_t micro_batches = 1;
  // 1: gradients stay whole between steps. 2: they are released as soon as they were sent. Master
  // weights and moments are sharded in both.
  int stage = 2;
  DType reduce_dtype = DType::f32;  // f16 or bf16: each gradient is rounded once before it is sent
};

// The result of Sharded::step().
struct ShardedStep {
  double loss = 0;           // mean over all micro-batches
  double gradient_norm = 0;  // before clipping
  bool applied = true;
};

// Trains one model on many ranks: each runs some of the micro-batches of a step and updates the
// elements of the master weights and moments that it owns. The results have the same bits for any
// number of ranks. An optimizer that has such parts only is made with
//   Partition partition(model.parameters(), ranks->size());
//   optim::AdamW optimizer(model.parameters(), {.master = {.parts = partition.parts(rank)}});
// All members are collective, except micro_batches().
class Sharded {
 public:
  Sharded(nn::Module& model, optim::Optimizer& optimizer, std::shared_ptr<Communicator> ranks,
          Partition partition, const ShardedOptions& options);
  ~Sharded();
  Sharded(const Sharded&) = delete;
  Sharded& operator=(const Sharded&) = delete;

  // A whole step: loss_of(micro) computes the loss of a micro-batch. Gradients are clipped to a
  // norm of max_norm, unless that is 0. A step with non-finite gradients is skipped on all ranks.
  ShardedStep step(amp::GradScaler& scaler, double max_norm,
                   FunctionRef<Tensor(int64_t micro)> loss_of);

  // The micro-batches of this rank: rank, rank + ranks, ...
  const std::vector<int64_t>& micro_batches() const { return micros_; }

  // The parts of a step, for training loops of one's own. First: calls backward(micro) for the
  // micro-batches of this rank and sums the gradients of all.
  void accumulate(FunctionRef<void(int64_t micro)> backward);
  // Second, after GradScaler::unscale: norm, clip factor and found_inf of the gradients of all
  // ranks. `own` has this rank's losses and wishes; `check` is the scaler's, if that is enabled.
  struct Agreed {
    optim::Clip clip;
    std::vector<double> losses;  // of all micro-batches, in their order
    int64_t stop = 0;
  };
  Agreed agree(double max_norm, StepPart own, const amp::GradientCheck* check);
  // Third, after the optimizer's step: every rank gets the elements that the others have updated.
  void gather_parameters();

  // The optimizer's state with whole tensors in place of parts, on rank 0; on the others as it is.
  StateDict gather(const StateDict& optimizer_state);

  const Partition& partition() const { return partition_; }

 private:
  std::shared_ptr<Communicator> ranks_;
  optim::Optimizer& optimizer_;
  Partition partition_;
  ShardedOptions options_;
  std::vector<Tensor> parameters_;
  std::vector<int64_t> micros_;
  Fp8Maxima fp8_;
  Fold fold_;
  // What the parameters' hooks call: they may outlive this object.
  struct Hooks {
    Fold* fold = nullptr;  // while a backward runs whose gradients travel as they are finished
  };
  std::shared_ptr<Hooks> hooks_;
};

}  // namespace binade::dist
