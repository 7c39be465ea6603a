#pragma once

#include "binade/data/tokenizer_json/model.h"
#include "binade/data/tokenizer_json/token_trie.h"

namespace binade::data {

struct WordPieceOptions {
  std::string prefix = "##";     // of tokens that continue a word; not empty
  std::string unknown = {};      // the token of words that no tokens make
  int64_t max_characters = 100;  // longer words are unknown
};

// BERT's model: from left to right the longest token that the rest of a word begins with. If there
// is none the whole word is unknown.
class WordPiece final : public TokenModel {
 public:
  WordPiece(Vocabulary vocabulary, WordPieceOptions options);

  void encode(std::string_view word, EncodeScratch& scratch,
              std::vector<int32_t>& ids) const override;

 private:
  void encode_word(std::string_view word, WorkBudget& budget, std::vector<int32_t>& ids) const;
  bool append_pieces(std::string_view word, WorkBudget& budget, std::vector<int32_t>& ids) const;

  WordPieceOptions options_;
  TokenTrie trie_;
  TokenTrie::Node continuation_;  // behind the prefix
};

}  // namespace binade::data
