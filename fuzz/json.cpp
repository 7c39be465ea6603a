#include "binade/base/json.h"

#include <string_view>

#include "binade/base/error.h"
#include "fuzz/mutate_json.h"

namespace {

// What was read, written again by hand.
void write(const binade::json::Value& value, binade::json::Writer& out) {
  const std::string words = value.describe();
  if (value.is_null()) {
    out.value(nullptr);
  } else if (value.is_object()) {
    out.begin_object();
    for (const auto& [name, member] : value.object()) {
      out.key(name);
      write(member, out);
    }
    out.end_object();
  } else if (words.starts_with("an array")) {
    out.begin_array();
    for (const auto& item : value.array()) write(item, out);
    out.end_array();
  } else if (words.starts_with("\"")) {
    out.value(std::string_view(value.string()));
  } else if (words == "true" || words == "false") {
    out.value(value.boolean());
  } else {
    out.value(value.number());
  }
}

std::string rewritten(std::string_view text) {
  const binade::json::Document document = binade::json::parse(text, {"fuzz", "input"});
  binade::json::Writer out;
  write(document.root(), out);
  return out.text();
}

}  // namespace

// A text is refused, or it reads back from what the writer makes of it.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string once;
  try {
    once = rewritten({reinterpret_cast<const char*>(data), size});
  } catch (const binade::Error&) {
    return 0;
  }
  if (rewritten(once) != once) std::abort();
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  return binade::fuzz::mutate_json(
      data, size, max_size, seed,
      {"model_type", "gpt2", "llama", "n_layer", "n_embd", "n_head", "n_positions", "vocab_size",
       "weight_map", "metadata", "layer_norm_epsilon", "rope_theta"});
}
