#pragma once

#include <array>
#include <limits>
#include <string>
#include <vector>

#include "binade/lab/plan.h"

// What a step costs on many ranks (ranks/sharded.h), without any of them.
namespace binade::lab {

// The connections between ranks. Rates are those of one rank in one direction.
struct Network {
  int per_node = 1;       // ranks of a machine
  double inside = 100e9;  // bytes per second to ranks of the same machine
  double between = 12e9;  // bytes per second to those of others
};

// One rank of `ranks`: the one that owns and sends the most.
struct RankPlan {
  int ranks = 1;
  std::array<int64_t, 3> memory = {};  // bytes at the peak of the steps, in stages 1, 2 and 3
  int64_t bytes_sent = 0;  // to other ranks, per step, in the configured stage: gradients, weights
  double communication = 0;      // seconds per step
  double compute = 0;            // seconds per step, without it
  double idle = 0;               // fraction of all ranks' time in rounds without a micro-batch
  double tokens_per_second = 0;  // of all ranks, if nothing overlaps
};

// `compute`: seconds of a step in one process.
RankPlan plan_ranks(const train::Config& config, const Forecast& alone, double compute, int ranks,
                    const Network& network);
// 1, 2, 4, ... and `most` ranks. Fails if a step has fewer micro-batches than that.
// Compute is measured on this machine, or that of `gpu`.
std::vector<RankPlan> plan_up_to(const train::Config& config, int most, const Network& network,
                                 const Gpu* gpu = nullptr);
// With bars of the speed if lines of `width` characters, at least 80, have space for them.
std::string rank_plan_text(const std::vector<RankPlan>& plans,
                           int width = std::numeric_limits<int>::max());

}  // namespace binade::lab
