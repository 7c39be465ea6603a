#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "binade/nn/module.h"
#include "binade/ranks/device_tally.h"
#include "binade/ranks/tally.h"

namespace binade::ranks {

// The amaxes that delayed scales have recorded in a step, of all layers of a model: ranks that
// ran different micro-batches agree on them before the histories roll.
class AmaxExchange {
 public:
  explicit AmaxExchange(nn::Module& model) : model_(model) {}

  // Before the first micro-batch of a step.
  void begin();
  // Adds this rank's numbers to its part of the tally.
  void add_to(StepPart& part);
  // Takes those of all ranks. The state is then that of one process that ran all micro-batches.
  void take(const StepWhole& whole);
  // begin(), add_to() and take() with numbers that stay on the device.
  void begin_on_device();
  void add_to(DeviceTally::Part& part);
  void take(const DeviceTally::Whole& whole);

 private:
  struct Stream {
    std::string name;
    Tensor pending, dropped;
    bool is_weight = false;  // which every rank quantizes once
  };
  std::vector<Stream> streams() const;
  // Drops this rank's non-finite amaxes, so that those of other ranks stay.
  static void settle(const std::vector<Stream>& streams);
  // The streams with weights last, and their `dropped` as one f64 tensor.
  std::vector<Stream> ordered_streams() const;
  Tensor dropped_of(const std::vector<Stream>& streams) const;

  nn::Module& model_;
  std::map<std::string, int64_t> counted_;  // `dropped` of each stream before the step
  // counted_ on a device: streams and their numbers.
  std::vector<std::string> counted_streams_;
  Tensor counted_on_device_;
};

}  // namespace binade::ranks
