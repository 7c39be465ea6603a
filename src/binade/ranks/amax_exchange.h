#pragma once

#include <string>
#include <vector>

#include "binade/nn/module.h"
#include "binade/ranks/tally.h"

namespace binade::ranks {

// The amaxes that delayed scales have recorded in a step, of all layers of a model: ranks that
// ran different micro-batches agree on them before the histories roll. The numbers stay on the
// device.
class AmaxExchange {
 public:
  // A rank alone has nothing to agree on.
  AmaxExchange(nn::Module& model, const Place& data) : model_(model), is_alone_(data.is_alone()) {}

  // Before the first micro-batch of a step.
  void begin();
  // Adds this rank's numbers to those of the step.
  void add_to(StepNumbers& own);
  // Takes those of all ranks. The state is then that of one process that ran all micro-batches.
  void take(const StepNumbers& all);

 private:
  struct Stream {
    std::string name;
    Tensor pending, dropped;
    bool is_weight = false;  // which every rank quantizes once
  };
  // Those with something to agree on, weights last.
  std::vector<Stream> streams() const;
  // Drops this rank's non-finite amaxes, so that those of other ranks stay.
  static void settle(const std::vector<Stream>& streams);
  // Their `dropped` as one f64 tensor.
  static Tensor dropped_of(const std::vector<Stream>& streams);
  // counted_ for these streams, of which a first step has made some.
  void count_new(const std::vector<Stream>& streams);

  nn::Module& model_;
  bool is_alone_;
  // `dropped` before the step: streams and their numbers.
  std::vector<std::string> counted_streams_;
  Tensor counted_;
};

}  // namespace binade::ranks
