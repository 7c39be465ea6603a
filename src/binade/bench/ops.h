#pragma once

#include <string>
#include <vector>

#include "binade/tensor/device.h"

namespace binade::bench {

// One memory-bound kernel.
struct OpTiming {
  std::string name;
  double seconds = 0;        // best
  double bytes = 0;          // read and written, each tensor once
  double share_of_copy = 0;  // bandwidth relative to a copy measured in turns with it
};

// Measures the memory-bound kernels of a training step, each for `seconds`, on tensors larger than
// any cache.
std::vector<OpTiming> bench_ops(Device device, double seconds);

std::string to_table(Device device, const std::vector<OpTiming>& timings);
std::string to_json(Device device, const std::vector<OpTiming>& timings);

}  // namespace binade::bench
