#include <cstdlib>

#include "binade/base/error.h"
#include "binade/train/hash/reproduction.h"
#include "fuzz/memory_file.h"
#include "fuzz/mutate_json.h"

// A manifest is refused, or it is written and read again as the same one.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const binade::fuzz::MemoryFile file, again;
  try {
    const auto manifest = binade::train::read_reproduction(file.holding(data, size));
    const std::string text = to_json(manifest);
    const auto copy = binade::train::read_reproduction(
        again.holding(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
    if (copy.links != manifest.links || copy.config != manifest.config) std::abort();
  } catch (const binade::Error&) {
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  return binade::fuzz::mutate_json(data, size, max_size, seed,
                                   {"links", "step", "hash", "weights", "moments", "scales", "data",
                                    "link", "config", "steps", "0123456789abcdef"});
}
