#pragma once

#include "binade/tensor/memory.h"
#include "binade/train/trainer.h"

// Forecasts from steps on the meta device: they book the same allocations as real steps, but
// allocate and compute nothing.
namespace binade::train {

class MetaRun {
 public:
  explicit MetaRun(const Config& config, std::shared_ptr<dist::Communicator> ranks = nullptr);

  void step() { trainer_.step(tokens_); }
  int64_t parameter_count() { return trainer_.model().parameter_count(); }

 private:
  Trainer trainer_;
  data::Tokens tokens_;
};

// Peak memory of a run's training steps, in all and by category. `ranks`: of a rank of
// dist::simulated() among others.
memory::Statistics forecast_memory(const Config& config,
                                   std::shared_ptr<dist::Communicator> ranks = nullptr);

}  // namespace binade::train
