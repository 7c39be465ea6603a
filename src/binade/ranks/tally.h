#pragma once

#include <cstdint>
#include <vector>

#include "binade/ranks/communicator.h"

namespace binade::ranks {

// What one rank knows of a step before the update.
struct StepPart {
  std::vector<double> norm_parts;  // squared sums of the gradient elements it owns
  double found_inf = 0;            // 1 if one of these is non-finite
  int64_t first_bad = INT64_MAX;   // smallest index of a parameter with such an element
  std::vector<double> losses;      // of its micro-batches
  std::vector<double> maxima;      // amaxes of this step, of delayed scales
  std::vector<int64_t> sums;       // their non-finite amaxes of this step
  std::vector<int64_t> most;       // the same of weights, which every rank has alike
  int64_t stop = 0;                // the signal that asks the run to end; 0: none
  double seconds = 0, waited = 0;  // of its steps so far
};

// The parts of all ranks, put together in an order that does not depend on them.
struct StepWhole {
  std::vector<std::vector<double>> norm_parts, losses;  // by rank
  double found_inf = 0;
  int64_t first_bad = INT64_MAX;
  std::vector<double> maxima;
  std::vector<int64_t> sums, most;
  int64_t stop = 0;
  double seconds = 0, waited = 0;  // of all ranks together
};

// One all-gather. Fails if the ranks did not run the same collectives before. Collective.
StepWhole tally(Communicator& ranks, const StepPart& part);

}  // namespace binade::ranks
