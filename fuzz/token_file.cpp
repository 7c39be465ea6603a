#include "binade/data/token_file.h"

#include "binade/base/error.h"
#include "fuzz/memory_file.h"

// A file is refused, or every id can be read and is below the vocabulary.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const binade::fuzz::MemoryFile file;
  constexpr int64_t vocab = 1000;
  try {
    const auto tokens = binade::data::read_token_file(file.holding(data, size), vocab, 4);
    for (int64_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i] < 0 || tokens[i] >= vocab) std::abort();
    }
  } catch (const binade::Error&) {
  }
  return 0;
}
