#include "binade/data/tokenizer_json/tokenizer_json.h"

#include <string>

#include "binade/base/error.h"
#include "fuzz/mutate_json.h"

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

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  return binade::fuzz::mutate_json(data, size, max_size, seed,
                                   {"version",
                                    "added_tokens",
                                    "normalizer",
                                    "pre_tokenizer",
                                    "post_processor",
                                    "decoder",
                                    "model",
                                    "type",
                                    "BPE",
                                    "Unigram",
                                    "vocab",
                                    "merges",
                                    "unk_id",
                                    "unk_token",
                                    "byte_fallback",
                                    "ByteLevel",
                                    "Split",
                                    "Sequence",
                                    "normalizers",
                                    "pretokenizers",
                                    "decoders",
                                    "Regex",
                                    "String",
                                    "pattern",
                                    "content",
                                    "behavior",
                                    "Isolated",
                                    "NFC",
                                    "NFKD",
                                    "Replace",
                                    "Prepend",
                                    "Strip",
                                    "Fuse",
                                    "ByteFallback",
                                    "Metaspace",
                                    "replacement",
                                    "prepend_scheme",
                                    "TemplateProcessing",
                                    "single",
                                    "special_tokens",
                                    "ids",
                                    "\\p{L}+",
                                    "(a|a)*b",
                                    "id",
                                    "special",
                                    "lstrip"});
}
