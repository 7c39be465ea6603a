#include "binade/io/safetensors.h"

#include "binade/base/error.h"
#include "fuzz/memory_file.h"

// A file is refused, or all its tensors load and take no more bytes than the file has.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const binade::fuzz::MemoryFile file;
  try {
    int64_t bytes = 0;
    for (const auto& [name, tensor] : binade::io::load_safetensors(file.holding(data, size)))
      bytes += tensor.bytes();
    if (std::cmp_greater(bytes, size)) std::abort();
  } catch (const binade::Error&) {
  }
  return 0;
}
