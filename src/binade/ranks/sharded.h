#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "binade/amp/grad_scaler.h"
#include "binade/base/function_ref.h"
#include "binade/optim/clip.h"
#include "binade/ranks/amax_exchange.h"
#include "binade/ranks/fold.h"
#include "binade/ranks/tally.h"
#include "binade/ranks/units.h"

namespace binade::ranks {

struct ShardedOptions {
  // Of a whole step, on all ranks together: at least as many as ranks. This number, not that of the
  // ranks, defines the arithmetic.
  int64_t micro_batches = 1;
  // 1: gradients are sent when a backward has ended. 2: each bucket of them is sent, and its memory
  // released, as soon as it is complete. 3: of the parameters of a nn::LanguageModel's blocks, each
  // rank keeps its part, too; the rest is there while a block runs. Master weights and moments are
  // sharded in all.
  int stage = 2;
  DType reduce_dtype = DType::f32;  // f16 or bf16: each gradient is rounded once before it is sent
  // `any`: sums of gradients, and so results, depend on the number of ranks.
  ReduceOrder order = ReduceOrder::fixed;
};

// Fails unless there is a micro-batch of a step for each rank.
void check_micro_batches(int64_t micro_batches, int ranks);

// The result of Sharded::step().
struct ShardedStep {
  double loss = 0;           // mean over all micro-batches
  double gradient_norm = 0;  // before clipping
  bool applied = true;
};

// Trains one model on all ranks: each runs some of the micro-batches of a step and updates the
// elements of the master weights and moments that it owns. The results have the same bits for any
// number of ranks. A rank alone has all of them: nothing is copied or sent, and gradients stay
// where backwards leave them. An optimizer that has such parts only is made with
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
  // The index of one of these among them.
  size_t own_index(int64_t micro) const { return data_.index_of(micro); }

  // The parts of a step, for training loops of one's own. First: calls backward(micro) for the
  // micro-batches of this rank, in which ops draw random numbers by the number of the micro-batch,
  // and sums the gradients of all.
  void accumulate(FunctionRef<void(int64_t micro)> backward);
  // Second, after GradScaler::unscale: mean loss, norm, clip factor and found_inf of all ranks, on
  // the parameters' device. `losses` are those of this rank's micro-batches, perhaps each with
  // other scalars behind it, as many in every micro-batch; `check` is the scaler's, if that is
  // enabled.
  struct Agreed {
    optim::Clip clip;
    Tensor loss;                 // f64 scalar: the mean over all micro-batches
    std::vector<Tensor> others;  // the means of the other scalars
  };
  Agreed agree(double max_norm, const std::vector<Tensor>& losses, const amp::GradientCheck* check);
  // Third, after the optimizer's step: every rank gets the elements that the others have updated,
  // of parameters that stay whole. Those of a skipped step are sent only where reading found_inf
  // would wait.
  void gather_parameters(const Tensor& found_inf);

  // The results of `count` forwards without a backward, in their order: scalars, such as losses, or
  // tensors of `each` elements, which follow one another. Each rank calls result_of() for some of
  // them; a GPU's are read at the end.
  std::vector<double> run_forwards(int64_t count, FunctionRef<Tensor(int64_t index)> result_of,
                                   int64_t each = 1);
  // Stage 3 of many ranks: the memory of parameters comes and goes.
  bool releases_weights() const { return options_.stage == 3; }
  // Stage 3: whole parameters, on all ranks or on rank 0 alone, until the next step or forward, or
  // until keep_shards(). Does nothing in other stages.
  void gather_weights(Units::Where where);
  // Stage 3: calls `visitor` with the parameters of one block after the other, which all ranks have
  // during the call.
  void visit_blocks(FunctionRef<void(std::span<const Tensor> block)> visitor);
  // Stage 3: takes each rank's elements from parameters that were gathered on all ranks and then
  // changed. Not collective.
  void keep_shards();

  // The optimizer's state with whole tensors in place of parts, in the host's memory of rank 0; on
  // the others, and on a rank alone, as it is.
  StateDict gather(const StateDict& optimizer_state);
  // After a replay of a captured step: see Communicator::watch_replay().
  void watch_replay() { device_ranks_->watch_replay(); }

  const Partition& partition() const { return partition_; }

 private:
  // Parts of the norm of the gradients that this rank owns, and whether one is non-finite.
  StepNumbers norm_numbers() const;
  // Makes each block of the model a unit.
  void make_units(nn::Module& model);
  void before_block(int64_t block);
  void after_block(int64_t block, std::span<const Tensor> results);
  void before_backward(size_t unit);
  void run_pass(Units::Pass pass, bool has_work, FunctionRef<void()> work);

  std::shared_ptr<Communicator> ranks_;
  Place data_;
  optim::Optimizer& optimizer_;
  Partition partition_;
  ShardedOptions options_;
  std::vector<Tensor> parameters_;
  Device device_;
  std::shared_ptr<Communicator> device_ranks_;  // for tensors
  std::vector<int64_t> micros_;
  AmaxExchange amaxes_;
  Fold fold_;
  Tally tally_;
  std::unique_ptr<Units> units_;  // stage 3
  std::vector<std::optional<size_t>> unit_of_block_;
  // Of each unit: the first buckets, whose gradients are complete when its backward begins.
  std::vector<size_t> complete_buckets_;
  std::vector<GatherGroup> gathered_;  // after a step: of each bucket, what is in no unit
  // What the hooks of parameters and blocks call: they may outlive this object.
  struct Hooks {
    Fold* fold = nullptr;      // while a backward runs whose gradients travel as they are finished
    Sharded* owner = nullptr;  // stage 3
    std::optional<Units::Pass> pass;  // that runs on this rank
  };
  std::shared_ptr<Hooks> hooks_;
};

}  // namespace binade::ranks
