#include <algorithm>
#include <cmath>
#include <optional>

#include "binade/data/tokenizer_json/bpe.h"
#include "binade/data/tokenizer_json/read_parts.h"
#include "binade/data/tokenizer_json/unigram.h"
#include "binade/data/tokenizer_json/wordpiece.h"

namespace binade::data {
namespace {

using json::Value;

constexpr double max_token_score = 1e9;

Vocabulary read_vocabulary(const Value& value) {
  std::vector<std::string> tokens;
  for (const auto& [token, id] : value.object()) {
    if (token.empty()) id.refuse("tokens that are not empty", "an empty one");
    const auto place = static_cast<size_t>(id.integer(0, max_token_id));
    if (place >= tokens.size()) tokens.resize(place + 1);
    if (!tokens[place].empty())
      id.refuse("ids that differ",
                std::to_string(place) + ", which " + json::in_quotes(tokens[place]) + " has");
    tokens[place] = token;
  }
  if (tokens.empty()) value.refuse("tokens", "none");
  return Vocabulary(std::move(tokens));
}

struct MergeText {
  std::string_view left, right;
};

// "a b", or ["a", "b"].
MergeText merge_text(const Value& value) {
  if (value.is_string()) {
    const std::string_view text = value.string();
    const size_t space = text.find(' ');
    if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos)
      value.refuse("two tokens with a space between them", value.describe());
    return {text.substr(0, space), text.substr(space + 1)};
  }
  const auto& pair = value.array();
  if (pair.size() != 2) value.refuse("two tokens", value.describe());
  return {pair[0].string(), pair[1].string()};
}

std::vector<MergeRule> read_merges(const Value& value, const Vocabulary& vocabulary) {
  std::vector<MergeRule> merges;
  for (const Value& item : value.array()) {
    if (item.is_string() && item.string().starts_with("#version")) continue;
    const auto [left, right] = merge_text(item);
    const auto id_of = [&](const std::string& token) {
      const auto id = vocabulary.id_of(token);
      if (!id) item.refuse("tokens of the vocabulary", json::in_quotes(token));
      return *id;
    };
    merges.push_back({id_of(std::string(left)), id_of(std::string(right)),
                      id_of(std::string(left) + std::string(right))});
  }
  return merges;
}

// Old files have an empty text instead of null.
void expect_no_text(const Value& model, std::string_view name) {
  const Value* value = optional_member(model, name);
  if (value != nullptr && !value->string().empty()) value->refuse("null", value->describe());
}

std::unique_ptr<const TokenModel> read_bpe(const Value& value, WordKind words) {
  expect_members(value,
                 {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                  "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"});
  if (const Value* dropout = optional_member(value, "dropout"); dropout && dropout->number() != 0)
    dropout->refuse("null or 0: the same text has the same ids", dropout->describe());
  expect_no_text(value, "continuing_subword_prefix");
  expect_no_text(value, "end_of_word_suffix");
  BpeOptions options{.byte_level = words == WordKind::bytes,
                     .byte_fallback = optional_flag(value, "byte_fallback", false),
                     .fuse_unknown = optional_flag(value, "fuse_unk", false),
                     .ignore_merges = optional_flag(value, "ignore_merges", false)};
  if (const Value* unknown = optional_member(value, "unk_token"))
    options.unknown = unknown->string();
  Vocabulary vocabulary = read_vocabulary(value.at("vocab"));
  const auto merges = read_merges(value.at("merges"), vocabulary);
  return std::make_unique<Bpe>(std::move(vocabulary), merges, std::move(options));
}

std::unique_ptr<const TokenModel> read_unigram(const Value& value, WordKind words) {
  expect_members(value, {"type", "unk_id", "vocab", "byte_fallback"});
  if (words == WordKind::bytes) value.refuse("a BPE model behind ByteLevel", "Unigram");
  std::vector<std::string> tokens;
  std::vector<double> scores;
  for (const Value& item : value.at("vocab").array()) {
    const auto& pair = item.array();
    if (pair.size() != 2) item.refuse("a token and its score", item.describe());
    tokens.push_back(text_of(pair[0]));
    scores.push_back(pair[1].number());
    if (!(std::abs(scores.back()) <= max_token_score))
      pair[1].refuse("a score of at most 1e9 in magnitude", pair[1].describe());
    if (std::cmp_greater(tokens.size(), max_token_id))
      item.refuse("at most " + std::to_string(max_token_id) + " tokens", "more");
  }
  if (tokens.empty()) value.at("vocab").refuse("tokens", "none");
  UnigramOptions options{.byte_fallback = optional_flag(value, "byte_fallback", false)};
  if (const Value* unknown = optional_member(value, "unk_id"))
    options.unknown = static_cast<int32_t>(unknown->integer(0, std::ssize(tokens) - 1));
  return std::make_unique<Unigram>(Vocabulary(std::move(tokens)), std::move(scores), options);
}

std::unique_ptr<const TokenModel> read_wordpiece(const Value& value, WordKind words) {
  expect_members(value, {"type", "unk_token", "continuing_subword_prefix",
                         "max_input_chars_per_word", "vocab"});
  if (words == WordKind::bytes) value.refuse("a BPE model behind ByteLevel", "WordPiece");
  WordPieceOptions options{
      .prefix = text_of(value.at("continuing_subword_prefix")),
      .unknown = value.at("unk_token").string(),
      .max_characters = value.at("max_input_chars_per_word").integer(0, INT32_MAX)};
  return std::make_unique<WordPiece>(read_vocabulary(value.at("vocab")), std::move(options));
}

}  // namespace

std::unique_ptr<const TokenModel> read_model(const Value& value, WordKind words) {
  const Value* type = value.find("type");
  // Old files have no type: only BPE has merges.
  if (type == nullptr && value.find("merges") != nullptr) return read_bpe(value, words);
  const Value& named = value.at("type");
  if (named.string() == "BPE") return read_bpe(value, words);
  if (named.string() == "Unigram") return read_unigram(value, words);
  if (named.string() == "WordPiece") return read_wordpiece(value, words);
  named.refuse("a model BPE, Unigram or WordPiece", named.describe());
}

}  // namespace binade::data
