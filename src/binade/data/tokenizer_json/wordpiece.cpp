#include "binade/data/tokenizer_json/wordpiece.h"

#include <algorithm>

#include "binade/base/error.h"
#include "binade/base/json.h"

namespace binade::data {
namespace {

int64_t characters_in(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;
  });
}

}  // namespace

WordPiece::WordPiece(Vocabulary vocabulary, WordPieceOptions options)
    : TokenModel(std::move(vocabulary)),
      options_(std::move(options)),
      trie_(this->vocabulary()),
      continuation_(TokenTrie::root) {
  for (const char byte : options_.prefix) {
    if (continuation_ != TokenTrie::none) continuation_ = trie_.next(continuation_, byte);
  }
}

void WordPiece::encode(std::string_view word, EncodeScratch& scratch,
                       std::vector<int32_t>& ids) const {
  encode_cached(word, scratch, ids, [&] { encode_word(word, scratch.budget, ids); });
}

void WordPiece::encode_word(std::string_view word, WorkBudget& budget,
                            std::vector<int32_t>& ids) const {
  const size_t before = ids.size();
  if (characters_in(word) <= options_.max_characters && append_pieces(word, budget, ids)) return;
  ids.resize(before);
  const auto unknown = vocabulary().id_of(options_.unknown);
  if (!unknown) {
    fail("tokenizer", {.argument = "the word " + json::in_quotes(word),
                       .expected = "tokens for it, or the unk_token in the vocabulary",
                       .found = "neither"});
  }
  ids.push_back(*unknown);
}

// Returns whether tokens make the whole word.
bool WordPiece::append_pieces(std::string_view word, WorkBudget& budget,
                              std::vector<int32_t>& ids) const {
  TokenTrie::Node start = TokenTrie::root;
  for (size_t begin = 0; begin < word.size();) {
    size_t at = begin, end = begin;  // of the bytes read, and of the longest token among them
    int32_t longest = -1;
    for (TokenTrie::Node node = start; node != TokenTrie::none && at < word.size();) {
      node = trie_.next(node, word[at++]);
      if (node == TokenTrie::none || trie_.token_at(node) < 0) continue;
      longest = trie_.token_at(node);
      end = at;
    }
    budget.spend(at - begin, [] { return std::string("the vocabulary"); });
    if (longest < 0) return false;
    ids.push_back(longest);
    begin = end;
    start = continuation_;
  }
  return true;
}

}  // namespace binade::data
