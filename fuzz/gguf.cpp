#include <cstdlib>

#include "binade/base/error.h"
#include "binade/data/tokenizer_json/from_gguf.h"
#include "binade/io/gguf/model.h"
#include "fuzz/memory_file.h"

// A file is refused, or its tensors load and its configuration and tokenizer are read or refused.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace binade;
  static const fuzz::MemoryFile memory;
  try {
    const io::gguf::File file(memory.holding(data, size));
    int64_t bytes = 0;
    for (const io::gguf::TensorInfo& tensor : file.tensors()) {
      bytes += tensor.bytes;
      if (tensor.type->dtype || tensor.type->blocks() != nullptr) file.load(tensor);
    }
    if (std::cmp_greater(bytes, size)) std::abort();
    for (const io::gguf::Key& key : file.keys()) key.describe();
    try {
      io::gguf::read_config(file);
    } catch (const Error&) {
    }
    if (data::has_tokenizer(file)) data::gguf_tokenizer_json(file);
  } catch (const Error&) {
  }
  return 0;
}
