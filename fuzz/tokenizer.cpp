#include <string>

#include "binade/base/error.h"
#include "binade/data/sentencepiece.h"

// A model is refused, or text goes through it: every id is below its vocabulary and decodes.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string text = "a b ab  aab\n\xC3\xA4\xE2\x96\x81 <unk> <s> 12 \xFF x";
  try {
    const auto tokenizer =
        binade::data::sentencepiece_of({reinterpret_cast<const char*>(data), size}, "input.model");
    const auto ids = tokenizer->encode(text);
    for (const int64_t id : ids) {
      if (id < 0 || id >= tokenizer->vocab()) std::abort();
    }
    tokenizer->decode(ids);
  } catch (const binade::Error&) {
  }
  return 0;
}
