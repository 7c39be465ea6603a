#include "binade/data/tokenizer_json/huggingface_files.h"

#include <set>

#include "binade/base/json.h"
#include "binade/data/tokenizer.h"
#include "binade/data/tokenizer_json/from_gguf.h"
#include "binade/data/tokenizer_json/from_sentencepiece.h"
#include "binade/data/tokenizer_json/write.h"
#include "binade/io/file.h"

namespace binade::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* tokenizer_writer = "tokenizer";

void write_file(const fs::path& path, std::string_view text) {
  io::AtomicFile file(path, tokenizer_writer);
  file.append(text);
  file.commit();
}

bool is_there(const fs::path& path) {
  std::error_code ignored;  // reading or writing says what is wrong
  return fs::exists(path, ignored);
}

void add_tokenizer_json(const fs::path& folder, int64_t vocab) {
  if (is_there(folder / "tokenizer.json")) return;
  const fs::path model = folder / "tokenizer.model";
  if (is_there(model)) {
    if (const auto text = sentencepiece_tokenizer_json(
            io::read_text(model, tokenizer_writer, max_tokenizer_bytes), model.string()))
      write_file(folder / "tokenizer.json", *text);
  } else if (vocab == byte_vocabulary && !find_tokenizer(folder)) {
    write_file(folder / "tokenizer.json", byte_tokenizer_json());
  }
}

// The roles that transformers gives to tokens of these names.
std::string tokenizer_config(const fs::path& tokenizer) {
  constexpr std::pair<const char*, const char*> roles[] = {
      {"bos_token", "<s>"},    {"eos_token", "</s>"},  {"eos_token", "<|endoftext|>"},
      {"unk_token", "<unk>"},  {"unk_token", "[UNK]"}, {"pad_token", "<pad>"},
      {"pad_token", "[PAD]"},  {"cls_token", "[CLS]"}, {"sep_token", "[SEP]"},
      {"mask_token", "[MASK]"}};
  const json::Document document =
      json::parse(io::read_text(tokenizer, tokenizer_writer, max_tokenizer_bytes),
                  {.reader = tokenizer_writer, .file = tokenizer.string()});
  std::set<std::string> special;
  for (const json::Value& token : document.root().at("added_tokens").array()) {
    if (token.at("special").boolean()) special.insert(token.at("content").string());
  }
  json::Writer out(2);
  // Without a class transformers takes the one of the model type, with its own split pattern. Some
  // model types override even the class, unless auto_map is there.
  out.begin_object().key("tokenizer_class").value("PreTrainedTokenizerFast");
  out.key("auto_map").begin_object().key("AutoTokenizer").begin_array();
  for (int i = 0; i < 2; ++i) out.value("PreTrainedTokenizerFast");
  out.end_array().end_object();
  out.key("clean_up_tokenization_spaces").value(false);
  std::set<std::string> given;
  for (const auto& [role, token] : roles) {
    if (special.contains(token) && given.insert(role).second) out.key(role).value(token);
  }
  return out.end_object().text() + "\n";
}

}  // namespace

void add_huggingface_files(const fs::path& folder, int64_t vocab) {
  add_tokenizer_json(folder, vocab);
  const fs::path tokenizer = folder / "tokenizer.json", config = folder / "tokenizer_config.json";
  if (is_there(tokenizer) && !is_there(config)) write_file(config, tokenizer_config(tokenizer));
}

void add_tokenizer_of(const fs::path& gguf, const fs::path& folder) {
  const io::gguf::File file(gguf);
  if (has_tokenizer(file)) write_file(folder / "tokenizer.json", gguf_tokenizer_json(file));
}

}  // namespace binade::data
