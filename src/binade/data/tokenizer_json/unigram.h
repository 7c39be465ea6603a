#pragma once

#include "binade/data/tokenizer_json/model.h"
#include "binade/data/tokenizer_json/token_trie.h"

namespace binade::data {

struct UnigramOptions {
  std::optional<int32_t> unknown = {};  // the id of unknown characters; none: they are an error
  bool byte_fallback = false;  // unknown characters become the tokens <0xXX> of their bytes
};

// The unigram model of SentencePiece: splits a word into the tokens with the largest sum of scores.
class Unigram final : public TokenModel {
 public:
  Unigram(Vocabulary vocabulary, std::vector<double> scores, UnigramOptions options);

  void encode(std::string_view word, EncodeScratch& scratch,
              std::vector<int32_t>& ids) const override;

 private:
  void encode_word(std::string_view word, WorkBudget& budget, std::vector<int32_t>& ids) const;
  void append_text(std::string_view text, std::vector<int32_t>& ids) const;
  int32_t unknown_id(std::string_view text) const;

  UnigramOptions options_;
  std::vector<double> scores_;  // by id
  double unknown_score_;
  TokenTrie trie_;
};

}  // namespace binade::data
