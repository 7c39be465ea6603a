#pragma once

#include <cstdint>
#include <string>

namespace binade::lab {

// A state of a replay that is not the one recorded.
struct ReplayDifference {
  int64_t step = 0;
  std::string parts;   // "weights, moments"
  std::string record;  // where the expected hash is: "metrics.jsonl", "checkpoints/step-300"
};

}  // namespace binade::lab
