#include <cstdlib>

#include "binade/base/error.h"
#include "binade/train/config/precision_plan.h"
#include "fuzz/memory_file.h"
#include "fuzz/mutate_json.h"

// A plan is refused, or it is written and read again as the same one.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const binade::fuzz::MemoryFile file;
  try {
    const auto plan = binade::train::read_precision_plan(file.holding(data, size));
    for (const auto& one : plan.layers) {
      if (one.module.empty() || one.step < 0) std::abort();
    }
    if (plan.current().size() > plan.layers.size()) std::abort();
  } catch (const binade::Error&) {
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  return binade::fuzz::mutate_json(
      data, size, max_size, seed,
      {"layers", "bf16", "module", "step", "harm", "recipe", "fp8_scaling", "block",
       "row, eps = 1e-6", "dgrad", "blocks.0.mlp.up"});
}
