#include "binade/data/tokenizer_json/from_gguf.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/base/text.h"
#include "binade/data/tokenizer_json/from_sentencepiece.h"
#include "binade/data/tokenizer_json/read_parts.h"
#include "binade/data/tokenizer_json/tokenizer_json.h"
#include "binade/data/tokenizer_json/write.h"

namespace binade::data {
namespace {

using io::gguf::File;
using io::gguf::Key;
// GGUF numbers types as SentencePiece does.
using Type = SentencePieceContents::Type;
using Words = ByteLevelBpe::Words;

constexpr std::string_view key_prefix = "tokenizer.ggml.";

const Key* find_key(const File& file, std::string_view name) {
  return file.find_key(std::string(key_prefix) + std::string(name));
}
const Key& key_of(const File& file, std::string_view name) {
  return file.key(std::string(key_prefix) + std::string(name));
}

bool flag_or(const File& file, std::string_view name, bool otherwise) {
  const Key* key = find_key(file, name);
  return key == nullptr ? otherwise : key->flag();
}

void check_text(const Key& key, std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const size_t length = utf8_length(text, i);
    if (length == 0) key.refuse("texts in UTF-8", "found " + json::in_quotes(text));
    i += length;
  }
}

// Tokens with their types and scores. Unused ones at the end are left out: they fill the model's
// vocabulary.
std::vector<SentencePieceContents::Piece> read_pieces(const File& file, bool with_scores) {
  const Key& key = key_of(file, "tokens");
  const std::vector<std::string_view> tokens = key.texts();
  if (tokens.empty() || std::cmp_greater(tokens.size(), max_token_id))
    key.refuse("1 to " + std::to_string(max_token_id) + " tokens");
  std::vector<SentencePieceContents::Piece> pieces(tokens.size());
  for (size_t id = 0; id < tokens.size(); ++id) {
    check_text(key, tokens[id]);
    if (tokens[id].empty()) key.refuse("tokens that are not empty", "token " + std::to_string(id));
    pieces[id].text = tokens[id];
  }
  std::unordered_set<std::string_view> seen;
  for (const std::string_view text : tokens) {
    if (!seen.insert(text).second)
      key.refuse("tokens that differ", json::in_quotes(text) + " twice");
  }
  const std::string expected = "as many as there are tokens, " + std::to_string(tokens.size());
  if (const Key* types = find_key(file, "token_type")) {
    const std::vector<int64_t> values = types->integers();
    if (values.size() != tokens.size()) types->refuse(expected);
    for (size_t id = 0; id < values.size(); ++id) {
      if (values[id] < 1 || values[id] > 6) types->refuse("types from 1 to 6");
      pieces[id].type = static_cast<Type>(values[id]);
    }
  }
  if (with_scores) {
    const Key& scores = key_of(file, "scores");
    const std::vector<double> values = scores.numbers();
    if (values.size() != tokens.size()) scores.refuse(expected);
    for (size_t id = 0; id < values.size(); ++id) pieces[id].score = static_cast<float>(values[id]);
  }
  while (!pieces.empty() && pieces.back().type == Type::unused) pieces.pop_back();
  return pieces;
}

// The token in front of every text, if there is one.
std::optional<int64_t> begin_of(const File& file, bool by_default, size_t tokens) {
  if (!flag_or(file, "add_bos_token", by_default)) return {};
  const Key* id = find_key(file, "bos_token_id");
  if (id == nullptr) return {};
  return id->integer(0, static_cast<int64_t>(tokens) - 1);
}

struct NamedSplit {
  std::string_view name;
  Words words;
  bool nfc = false, ignore_merges = false, begins = false;
};

// By llama.cpp's names. NFC is that of the tokenizers so named, which llama.cpp does not apply.
constexpr NamedSplit named_splits[] = {
    {"gpt-2", Words::gpt2},
    {"olmo", Words::gpt2},
    {"llama-bpe", Words::llama3, false, true, true},
    {"dbrx", Words::llama3},
    {"qwen2", Words::qwen2, true},
    {"smollm", Words::digits_gpt2},
};

const NamedSplit& split_of(const File& file) {
  const Key& key = key_of(file, "pre");
  const auto* found = std::find_if(std::begin(named_splits), std::end(named_splits),
                                   [&](const NamedSplit& one) { return one.name == key.text(); });
  if (found != std::end(named_splits)) return *found;
  std::string known;
  for (const NamedSplit& one : named_splits)
    known += (known.empty() ? "" : ", ") + std::string(one.name);
  key.refuse("one of " + known, "give the model's tokenizer.json: --tokenizer");
}

std::vector<MergeRule> read_merges(const File& file,
                                   const std::vector<SentencePieceContents::Piece>& pieces) {
  std::unordered_map<std::string_view, int32_t> ids;
  for (size_t id = 0; id < pieces.size(); ++id) ids[pieces[id].text] = static_cast<int32_t>(id);
  const Key& key = key_of(file, "merges");
  std::vector<MergeRule> merges;
  for (const std::string_view text : key.texts()) {
    const size_t space = text.find(' ', 1);  // none in an empty text
    if (space == std::string_view::npos)
      key.refuse("two tokens with a space between them", "found " + json::in_quotes(text));
    const auto id_of = [&](const std::string& token) {
      const auto found = ids.find(token);
      if (found == ids.end()) key.refuse("merges of tokens", json::in_quotes(token) + " is none");
      return found->second;
    };
    const std::string left(text.substr(0, space)), right(text.substr(space + 1));
    merges.push_back({id_of(left), id_of(right), id_of(left + right)});
  }
  return merges;
}

std::string byte_level_json(const File& file) {
  const NamedSplit& split = split_of(file);
  const auto pieces = read_pieces(file, false);
  ByteLevelBpe result{
      .tokens = {}, .words = split.words, .ignore_merges = split.ignore_merges, .nfc = split.nfc};
  for (size_t id = 0; id < pieces.size(); ++id) {
    const auto& piece = pieces[id];
    result.tokens.push_back(piece.text);
    if (piece.type == Type::control || piece.type == Type::user_defined)
      result.added_tokens.push_back({.id = static_cast<int32_t>(id),
                                     .content = piece.text,
                                     .normalized = false,
                                     .special = piece.type == Type::control});
  }
  result.merges = read_merges(file, pieces);
  if (const auto id = begin_of(file, split.begins, pieces.size()))
    result.begin = {pieces[static_cast<size_t>(*id)].text, *id};
  return write_tokenizer_json(result);
}

std::string sentencepiece_json(const File& file) {
  SentencePieceContents contents;
  contents.pieces = read_pieces(file, true);
  contents.is_unigram = false;
  contents.byte_fallback = std::any_of(contents.pieces.begin(), contents.pieces.end(),
                                       [](const auto& piece) { return piece.type == Type::byte; });
  contents.add_dummy_prefix = flag_or(file, "add_space_prefix", true);
  contents.remove_extra_whitespaces = flag_or(file, "remove_extra_whitespaces", false);
  const auto text =
      sentencepiece_tokenizer_json(contents, begin_of(file, true, contents.pieces.size()));
  if (!text) key_of(file, "token_type").refuse("a token of type 2, for unknown characters");
  return *text;
}

}  // namespace

bool has_tokenizer(const File& file) {
  const Key* model = find_key(file, "model");
  return model != nullptr && model->text() != "none" && model->text() != "no_vocab";
}

std::string gguf_tokenizer_json(const File& file) {
  const Key& model = key_of(file, "model");
  if (model.text() == "gpt2") return byte_level_json(file);
  if (model.text() == "llama") return sentencepiece_json(file);
  model.refuse("gpt2 or llama", "give the model's tokenizer.json: --tokenizer");
}

std::unique_ptr<const Tokenizer> open_gguf_tokenizer(const std::filesystem::path& path) {
  return tokenizer_json_of(gguf_tokenizer_json(File(path)), path.string());
}

}  // namespace binade::data
