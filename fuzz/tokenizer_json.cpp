#include "binade/data/tokenizer_json/tokenizer_json.h"

#include <string>

#include "binade/base/error.h"

// A tokenizer.json is refused, or text goes through it: every id is below its vocabulary and
// decodes.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string text =
      "a b ab  aab's\r\n\xC3\xA4 e\xCC\x81\xE2\x96\x81 <unk> <s> 123 \xE4\xB8\xAD\xFF x\n";
  try {
    const auto tokenizer =
        binade::data::tokenizer_json_of({reinterpret_cast<const char*>(data), size}, "input.json");
    const auto ids = tokenizer->encode(text);
    for (const int64_t id : ids) {
      if (id < 0 || id >= tokenizer->vocab()) std::abort();
    }
    tokenizer->decode(ids);
    for (const int64_t id : tokenizer->template_ids().before) {
      if (id < 0 || id >= tokenizer->vocab()) std::abort();
    }
  } catch (const binade::Error&) {
  }
  return 0;
}
