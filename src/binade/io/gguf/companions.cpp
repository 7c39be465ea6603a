#include "binade/io/gguf/companions.h"

#include <utility>

#include "binade/base/json.h"

namespace binade::io::gguf {
namespace {

// Without a class transformers takes the one of the model type, with its own split pattern.
std::string tokenizer_config(const File& file, const std::vector<std::string_view>& tokens) {
  constexpr const char* transformers_class = "PreTrainedTokenizerFast";
  constexpr std::pair<const char*, const char*> roles[] = {
      {"bos_token", "tokenizer.ggml.bos_token_id"},
      {"eos_token", "tokenizer.ggml.eos_token_id"},
      {"unk_token", "tokenizer.ggml.unknown_token_id"},
      {"pad_token", "tokenizer.ggml.padding_token_id"}};
  json::Writer out(2);
  out.begin_object().key("tokenizer_class").value(transformers_class);
  out.key("auto_map").begin_object().key("AutoTokenizer").begin_array();
  out.value(transformers_class).value(transformers_class).end_array().end_object();
  out.key("clean_up_tokenization_spaces").value(false);
  for (const auto& [role, name] : roles) {
    const Key* key = file.find_key(name);
    if (key == nullptr) continue;
    const auto id = static_cast<size_t>(key->integer(0, UINT32_MAX));
    // llama.cpp ignores ids past the vocabulary.
    if (id < tokens.size()) out.key(role).value(tokens[id]);
  }
  return out.end_object().text() + "\n";
}

}  // namespace

CompanionFiles companions_of(const File& file) {
  CompanionFiles files;
  if (const Key* chat = file.find_key("tokenizer.chat_template"))
    files["chat_template.jinja"] = chat->text();
  if (const Key* tokens = file.find_key("tokenizer.ggml.tokens"))
    files["tokenizer_config.json"] = tokenizer_config(file, tokens->texts());
  return files;
}

}  // namespace binade::io::gguf
