#include "binade/data/token_file.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "binade/base/error.h"
#include "fuzz/memory_file.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

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

// Changes the header's numbers, a single id, or the number of ids.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  std::mt19937 draw(seed);
  constexpr size_t header = 1024;
  constexpr int32_t edges[] = {0,     1,     -1,        7,         60,       999,      1000,
                               65535, 65536, INT32_MAX, INT32_MIN, 20240520, 20240801, 20240326};
  const auto put_at = [&](size_t at, int32_t value) {
    if (at + 4 <= size) std::memcpy(data + at, &value, 4);
  };
  switch (draw() % 5) {
    case 0:
      put_at(4 * (draw() % 3), edges[draw() % std::size(edges)]);
      return size;
    case 1:  // the count that the size gives, for either width
      if (size >= header)
        put_at(8, static_cast<int32_t>((size - header) / (draw() % 2 == 0 ? 2 : 4)));
      return size;
    case 2:
      put_at(size < 4 ? 0 : draw() % (size - 3), edges[draw() % std::size(edges)]);
      return size;
    case 3:
      return std::min<size_t>(max_size, draw() % (size + 1));
    default:
      return LLVMFuzzerMutate(data, size, max_size);
  }
}
