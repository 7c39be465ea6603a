#pragma once

#include <cstdint>

#include "binade/ranks/communicator.h"

namespace binade::ranks {

// What the hosts of ranks tell each other when they start a step, so that hosts and GPUs need not
// wait for each other in it.
struct HostFacts {
  int64_t stop = 0;                // the signal that asks the run to end; 0: none
  double seconds = 0, waited = 0;  // of the steps so far

  // The fraction of the time that was spent waiting for others.
  double waiting() const { return seconds > 0 ? waited / seconds : 0; }
};

// The facts of all ranks: any signal, and the times of all together. Fails if the ranks did not run
// the same collectives before. Collective.
HostFacts exchange(Communicator& ranks, const HostFacts& own);

}  // namespace binade::ranks
