#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "binade/base/function_ref.h"
#include "binade/ranks/communicator.h"

namespace binade::ranks {

// Time and traffic of one rank's steps.
struct RankTime {
  double seconds = 0;  // of steps
  double waited = 0;   // of these, for other ranks
  double sent = 0;     // bytes to other ranks
};

// Counts the time and the traffic of a rank's steps.
class StepClock {
 public:
  explicit StepClock(std::shared_ptr<Communicator> ranks) : ranks_(std::move(ranks)) {}

  void begin();
  void end();
  // Runs the work that captures a step (backend/graph.h), within a step. What its collectives send
  // counts again with each later replay.
  void capture(FunctionRef<void()> work);
  void note_replay() { time_.sent += captured_; }

  // Of the steps that have ended.
  const RankTime& time() const { return time_; }
  // Those of all ranks; none for a rank alone, which waits for nobody. Collective.
  std::vector<RankTime> gather() const;

 private:
  std::shared_ptr<Communicator> ranks_;
  RankTime time_;
  std::chrono::steady_clock::time_point began_;
  Traffic before_;
  double captured_ = 0;  // bytes
};

}  // namespace binade::ranks
