#include "binade/io/safetensors.h"

#include "binade/base/error.h"
#include "binade/io/safetensors_header.h"
#include "fuzz/memory_file.h"
#include "fuzz/mutate_json.h"

namespace {

// The quick reader of headers has the same result as the thorough one, or none.
void compare_readers(const uint8_t* data, size_t size) {
  uint64_t length = 0;
  if (size < 8) return;
  std::memcpy(&length, data, 8);
  if (length > size - 8) return;
  const binade::io::HeaderText header{.text = {reinterpret_cast<const char*>(data) + 8, length},
                                      .file = "input",
                                      .data_start = static_cast<int64_t>(8 + length),
                                      .data_bytes = static_cast<int64_t>(size - 8 - length)};
  if (const auto plain = binade::io::read_plain_header(header)) {
    if (*plain != binade::io::read_header_document(header)) std::abort();
  }
}

}  // namespace

// A file is refused, or all its tensors load and take no more bytes than the file has.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const binade::fuzz::MemoryFile file;
  compare_readers(data, size);
  try {
    int64_t bytes = 0;
    for (const auto& [name, tensor] : binade::io::load_safetensors(file.holding(data, size)))
      bytes += tensor.bytes();
    if (std::cmp_greater(bytes, size)) std::abort();
  } catch (const binade::Error&) {
  }
  return 0;
}

// Changes the header as JSON and states its length; sometimes the data or single bytes.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  using namespace binade::fuzz;
  JsonMutator mutator({"__metadata__", "format", "pt", "dtype", "shape", "data_offsets", "F64",
                       "F32", "BF16", "F8_E4M3", "F8_E8M0", "I64", "U16", "BOOL", "a", "b"},
                      seed);
  uint64_t length = 0;
  if (size >= 8) std::memcpy(&length, data, 8);
  if (mutator.below(8) == 0 || size < 8 || length > size - 8)
    return LLVMFuzzerMutate(data, size, max_size);
  std::string header(reinterpret_cast<const char*>(data) + 8, length);
  std::string rest(reinterpret_cast<const char*>(data) + 8 + length, size - 8 - length);
  header = mutator.mutated(header);
  header.append(mutator.below(4), ' ');
  if (mutator.below(4) == 0) rest.resize(mutator.below(64), '\1');
  length = header.size() + (mutator.below(32) == 0 ? mutator.below(3) - 1 : 0);
  std::string result(reinterpret_cast<const char*>(&length), 8);
  result += header + rest;
  return result.size() <= max_size ? put(result, data, max_size)
                                   : LLVMFuzzerMutate(data, size, max_size);
}
