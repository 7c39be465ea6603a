#include <algorithm>

#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/data/tokenizer.h"
#include "binade/data/tokenizer_json/read_parts.h"
#include "binade/data/tokenizer_json/tokenizer_json.h"
#include "binade/data/tokenizer_json/write.h"
#include "binade/io/file.h"

namespace binade::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* vocab_reader = "tokenizer";
constexpr int64_t max_config = 16 << 20;

// Other classes have other split patterns, which only a tokenizer.json tells.
void check_class(const fs::path& folder) {
  const fs::path path = folder / "tokenizer_config.json";
  if (std::error_code ignored; !fs::exists(path, ignored)) return;
  const json::Document document =
      json::parse(io::read_text(path, vocab_reader, max_config), {vocab_reader, path.string()});
  const json::Value* name = optional_member(document.root(), "tokenizer_class");
  if (name == nullptr) return;
  if (name->string() != "GPT2Tokenizer" && name->string() != "GPT2TokenizerFast") {
    name->refuse("GPT2Tokenizer for vocab.json and merges.txt", name->describe(),
                 "transformers' save_pretrained writes a tokenizer.json for it");
  }
}

std::vector<std::string> read_tokens(const fs::path& path) {
  const json::Document document = json::parse(
      io::read_text(path, vocab_reader, max_tokenizer_bytes), {vocab_reader, path.string()});
  std::vector<std::string> tokens;
  for (const auto& [token, id] : document.root().object()) {
    const auto place = static_cast<size_t>(id.integer(0, max_token_id));
    if (place >= tokens.size()) tokens.resize(place + 1);
    if (token.empty() || !tokens[place].empty())
      id.refuse("tokens that are not empty, each with an id of its own", json::in_quotes(token));
    tokens[place] = token;
  }
  return tokens;
}

// One pair a line, in the order of their ranks; the first line may name a version.
std::vector<MergeRule> read_merges(const fs::path& path, const Vocabulary& vocabulary) {
  const std::string text = io::read_text(path, vocab_reader, max_tokenizer_bytes);
  std::vector<MergeRule> merges;
  int64_t number = 0;
  for (size_t begin = 0, end; begin < text.size(); begin = end + 1) {
    end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    if (line.ends_with('\r')) line.pop_back();
    ++number;
    if (line.starts_with("#version")) continue;
    const size_t space = std::min(line.find(' '), line.size());
    const std::string left = line.substr(0, space),
                      right = line.substr(std::min(space + 1, line.size()));
    const auto a = vocabulary.id_of(left), b = vocabulary.id_of(right),
               result = vocabulary.id_of(left + right);
    if (!a || !b || !result) {
      fail(vocab_reader, {.argument = path.string() + ", line " + std::to_string(number),
                          .expected = "two tokens of vocab.json that together are a third",
                          .found = json::in_quotes(line)});
    }
    merges.push_back({*a, *b, *result});
  }
  return merges;
}

}  // namespace

std::unique_ptr<const Tokenizer> open_vocab_and_merges(const fs::path& vocab) {
  check_class(vocab.parent_path());
  ByteLevelBpe tokenizer{.tokens = read_tokens(vocab), .words = ByteLevelBpe::Words::gpt2};
  const Vocabulary vocabulary(tokenizer.tokens);
  tokenizer.merges = read_merges(vocab.parent_path() / "merges.txt", vocabulary);
  // GPT-2's one special token.
  if (const auto id = vocabulary.id_of("<|endoftext|>"))
    tokenizer.added_tokens = {
        {.id = *id, .content = "<|endoftext|>", .normalized = false, .special = true}};
  return tokenizer_json_of(write_tokenizer_json(tokenizer), vocab.string());
}

}  // namespace binade::data
