#pragma once

#include "binade/backend/graph.h"
#include "binade/train/config/choices.h"

namespace binade::train {

// Which steps of a run are one launch of a recorded graph rather than the launches of all their
// kernels. The first steps never are: they tune, allocate and create what a recording must find.
class StepGraph {
 public:
  // Fails for GraphMode::on if the device cannot capture graphs.
  StepGraph(GraphMode wanted, Device device);

  // Whether the next step is a launch. Not while somebody looks at single kernels or ops.
  bool launches_next();
  // The next step's work is not what was recorded: it runs by itself.
  void interrupt() { interrupted_ = true; }
  // What was recorded holds no more: recording starts anew.
  void forget();

  // Runs a step kernel by kernel. One of the first is timed where it is still open whether a graph
  // pays.
  void run(FunctionRef<void()> step);
  // Runs work of which no tensor is needed when the next step starts, in the graph's memory.
  void run_between(FunctionRef<void()> work);

  void record(FunctionRef<void()> step) { graph_.capture(device_, step); }
  void launch() const { graph_.replay(); }
  bool recorded() const { return graph_.captured(); }

 private:
  enum class Mode : uint8_t { off, undecided, on };

  bool observed() const;
  void decide(FunctionRef<void()> step);

  Device device_;
  Mode mode_;
  backend::Graph graph_;
  int64_t steps_run_ = 0;
  bool interrupted_ = false;
};

}  // namespace binade::train
