#pragma once

#include <array>
#include <unordered_map>

#include "binade/data/tokenizer_json/flat_map.h"
#include "binade/data/tokenizer_json/model.h"

namespace binade::data {

// Two adjacent tokens that become one. Merges of a lower index go first, then those further left.
struct MergeRule {
  int32_t left, right, result;
};

struct BpeOptions {
  bool byte_level = false;     // words are bytes, each a character of the vocabulary (byte_level.h)
  bool byte_fallback = false;  // an unknown character becomes the tokens <0xXX> of its bytes
  bool fuse_unknown = false;   // adjacent unknown characters become one token
  bool ignore_merges = false;  // a word that is a token is that token
  std::string unknown = {};    // the token of unknown characters; empty: they are dropped
};

// Byte pair encoding. Words that are not in the cache are merged: short ones by scanning all pairs
// for each merge, long ones with a heap.
class Bpe final : public TokenModel {
 public:
  // Of two rules for the same pair the last counts.
  Bpe(Vocabulary vocabulary, const std::vector<MergeRule>& merges, BpeOptions options);

  void encode(std::string_view word, EncodeScratch& scratch,
              std::vector<int32_t>& ids) const override;

 private:
  void encode_units(std::string_view word, EncodeScratch& scratch, std::vector<int32_t>& ids) const;
  void encode_word(std::string_view word, EncodeScratch& scratch, std::vector<int32_t>& ids) const;
  bool are_separate(char32_t left, char32_t right) const;

  template <class Visit>
  void each_character(std::string_view word, Visit&& visit) const;
  void append_symbols(std::string_view word, std::vector<int32_t>& symbols) const;
  bool append_bytes(char32_t code, std::vector<int32_t>& symbols) const;
  int32_t id_of(char32_t code) const;
  int32_t unknown_id(char32_t code) const;

  uint64_t merge_of(int32_t left, int32_t right) const;
  void merge_short(std::vector<int32_t>& symbols) const;
  void merge_long(std::vector<int32_t>& symbols) const;

  static constexpr size_t low_codes = 0x200;  // all characters of bytes are among them

  BpeOptions options_;
  FlatMap merges_;                                    // two ids to a rank and the new id
  std::array<int32_t, low_codes> low_characters_;     // ids of single characters; -1: none
  std::unordered_map<char32_t, int32_t> characters_;  // of those past them
  std::array<int32_t, 256> bytes_;                    // ids of <0xXX>; -1: none
  FlatMap joints_;         // pairs of adjacent characters in merged tokens
  bool has_units_ = true;  // whether long words may be cut where no token joins two characters
};

}  // namespace binade::data
