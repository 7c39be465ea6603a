#pragma once

#include "binade/tensor/memory.h"
#include "binade/train/trainer.h"

// Forecasts from steps on a meta device, of a CPU's or a GPU's kind: they book the same allocations
// as real steps, but allocate and compute nothing.
namespace binade::train {

// Rows of logits that the loss of a run computes at a time: more on a GPU.
int64_t loss_chunk(const Config& config);

class MetaRun {
 public:
  explicit MetaRun(const Config& config,
                   std::shared_ptr<ranks::Communicator> ranks = ranks::single());

  void step();
  // A validation, as runs begin with.
  void evaluate();
  // Peak memory of the steps so far, in all and by category.
  memory::Statistics memory() const;
  nn::LanguageModel& model() { return trainer_.model(); }

 private:
  memory::Statistics before_;
  Trainer trainer_;
};

// The configuration with two rounds of micro-batches if it has more: they have the peak of any
// number.
Config with_few_rounds(Config config, int ranks = 1);

// Peak memory of a run's training steps, in all and by category. `ranks`: of a rank of
// ranks::simulated() among others.
memory::Statistics forecast_memory(const Config& config,
                                   std::shared_ptr<ranks::Communicator> ranks = ranks::single());

}  // namespace binade::train
