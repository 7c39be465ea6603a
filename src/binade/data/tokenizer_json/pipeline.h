#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "binade/data/tokenizer_json/added_tokens.h"
#include "binade/data/tokenizer_json/decoder.h"
#include "binade/data/tokenizer_json/model.h"
#include "binade/data/tokenizer_json/normalizer.h"
#include "binade/data/tokenizer_json/pre_tokenizer.h"

namespace binade::data {

// The parts of a tokenizer.json that make ids from text and text from ids.
struct PipelineParts {
  std::vector<AddedToken> added_tokens;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  std::unique_ptr<const TokenModel> model;
  Decoder decoder;
};

// Encodes in the order of the tokenizers package: matches added tokens in the text, normalizes the
// segments between them, matches further added tokens there, splits the rest into words, and runs
// the model on each word.
class Pipeline {
 public:
  explicit Pipeline(PipelineParts parts);

  int64_t vocab() const { return vocab_; }

  // The ids of the text from `begin` to `end`.
  std::vector<int32_t> encode(std::string_view text, size_t begin, size_t end) const;
  // The end of the part that begins at `begin` (text_parts.h). Parts have the ids of the whole: the
  // text around a cut encodes to the same ids with and without it.
  size_t part_end(std::string_view text, size_t begin) const;

  // Ids past the vocabulary become question marks, special tokens become nothing.
  std::string decode(std::span<const int64_t> ids) const;

 private:
  struct Place {
    bool at_start;      // of the whole text
    bool continuation;  // of a segment that began earlier
  };
  void encode_piece(std::string_view text, Place place, WorkBudget& budget,
                    std::vector<int32_t>& ids) const;
  void encode_segment(std::string_view text, Place place, EncodeScratch& scratch,
                      std::vector<int32_t>& ids) const;
  bool may_cut(std::string_view text, size_t at, WorkBudget& budget) const;

  // Scratch memory is reused by any thread.
  std::unique_ptr<EncodeScratch> take_scratch() const;
  void give_back(std::unique_ptr<EncodeScratch> scratch) const;

  PipelineParts parts_;
  AddedTokenMatcher raw_, normalized_;
  std::unordered_map<int32_t, std::string> added_text_;  // as the decoder sees it
  std::unordered_set<std::string> special_;
  int64_t vocab_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<EncodeScratch>> idle_;
};

}  // namespace binade::data
