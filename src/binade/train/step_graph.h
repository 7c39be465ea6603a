#pragma once

#include <functional>

#include "binade/backend/graph.h"
#include "binade/train/config/choices.h"

namespace binade::train {

// Runs steps kernel by kernel or as replays of a captured graph, and decides which. The first steps
// are never replays: they tune, allocate and create state that a capture must find.
class StepGraph {
 public:
  // Fails for GraphMode::on if the device cannot capture graphs. `agree` makes one choice of those
  // of all ranks; empty: there are no others.
  StepGraph(GraphMode requested, Device device, std::function<bool(bool)> agree = {});

  // Whether the next step is a replay. It is not while single kernels or ops are observed.
  bool replays_next();
  // Makes the next step run kernel by kernel, since state that the graph assumes may have changed.
  void interrupt() { interrupted_ = true; }
  // Discards the graph, so that it is captured anew.
  void reset();

  // Runs a step kernel by kernel. While undecided, times one to see whether a graph pays.
  void run(FunctionRef<void()> step);
  // Runs work between steps in the graph's memory; none of its tensors may outlive it.
  void run_between(FunctionRef<void()> work);

  void capture(FunctionRef<void()> step) { graph_.capture(device_, step); }
  void replay() const { graph_.replay(); }
  bool captured() const { return graph_.captured(); }

 private:
  enum class Mode : uint8_t { off, undecided, on };

  bool observed() const;
  void decide(FunctionRef<void()> step);

  Device device_;
  std::function<bool(bool)> agree_;
  Mode mode_;
  backend::Graph graph_;
  int64_t steps_run_ = 0;
  bool interrupted_ = false;
};

}  // namespace binade::train
