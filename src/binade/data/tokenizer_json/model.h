#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "binade/data/tokenizer_json/word_cache.h"
#include "binade/data/tokenizer_json/work_budget.h"

namespace binade::data {

// Tokens and their ids. An id may have no token.
class Vocabulary {
 public:
  // Tokens by id; an empty one stands for none. Of equal ones the last has the id.
  explicit Vocabulary(std::vector<std::string> tokens);

  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }  // largest id + 1
  int64_t count() const { return count_; }                               // of ids with a token
  std::optional<int32_t> id_of(std::string_view token) const;
  // Empty if there is none.
  const std::string& token(int32_t id) const { return tokens_[static_cast<size_t>(id)]; }
  // The id of "<0x0A>", the token of a single byte.
  std::optional<int32_t> id_of_byte(unsigned char byte) const;

 private:
  std::vector<std::string> tokens_;
  std::unordered_map<std::string_view, int32_t> ids_;
  int64_t count_ = 0;
};

// Working memory of one encoding thread.
struct EncodeScratch {
  WordCache cache;
  std::vector<int32_t> symbols;
  WorkBudget budget;  // of the text being encoded
};

// Turns words into ids.
class TokenModel {
 public:
  explicit TokenModel(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
  virtual ~TokenModel() = default;

  const Vocabulary& vocabulary() const { return vocabulary_; }
  // Appends the ids of a word, which is not empty.
  virtual void encode(std::string_view word, EncodeScratch& scratch,
                      std::vector<int32_t>& ids) const = 0;

 protected:
  // Appends the ids of a word from the cache, or those that encode_word() appends.
  template <class EncodeWord>
  static void encode_cached(std::string_view word, EncodeScratch& scratch,
                            std::vector<int32_t>& ids, EncodeWord&& encode_word) {
    if (word.size() > WordCache::max_bytes) return encode_word();
    const uint64_t hash = WordCache::hash_of(word);
    if (const auto known = scratch.cache.find(word, hash); known.data() != nullptr) {
      ids.insert(ids.end(), known.begin(), known.end());
      return;
    }
    const size_t before = ids.size();
    encode_word();
    scratch.cache.put(word, hash, std::span(ids).subspan(before));
  }

 private:
  Vocabulary vocabulary_;
};

}  // namespace binade::data
