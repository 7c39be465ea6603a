#include "binade/data/tokenizer_json/pipeline.h"

#include <algorithm>

#include "binade/data/tokenizer_json/text_parts.h"
#include "binade/data/tokenizer_json/unicode.h"

namespace binade::data {
namespace {

// Longer than nearly all words, so that one across a cut would show.
constexpr size_t context_bytes = 128;
// What is encoded at most to find the end of one part.
constexpr size_t max_tries_bytes = 2 * max_part_tries * 4 * context_bytes;

using Entry = AddedTokenMatcher::Entry;

std::vector<Entry> entries_of(const PipelineParts& parts, bool normalized) {
  std::vector<Entry> entries;
  std::string storage;
  WorkBudget budget = budget_of(parts.added_tokens);
  for (const AddedToken& token : parts.added_tokens) {
    if (token.normalized != normalized) continue;
    const std::string_view text =
        normalized
            ? parts.normalizer.apply(token.content, Normalizer::Piece::segment, budget, storage)
            : std::string_view(token.content);
    entries.push_back({std::string(text), token});
  }
  return entries;
}

}  // namespace

Pipeline::Pipeline(PipelineParts parts)
    : parts_(std::move(parts)),
      raw_(entries_of(parts_, false)),
      normalized_(entries_of(parts_, true)),
      vocab_(parts_.model->vocabulary().size()) {
  std::string storage;
  WorkBudget budget = budget_of(parts_.added_tokens);
  for (const AddedToken& token : parts_.added_tokens) {
    vocab_ = std::max<int64_t>(vocab_, token.id + 1);
    if (token.special) special_.insert(token.content);
    added_text_[token.id] =
        token.normalized
            ? parts_.normalizer.apply(token.content, Normalizer::Piece::segment, budget, storage)
            : token.content;
  }
}

std::vector<int32_t> Pipeline::encode(std::string_view text, size_t begin, size_t end) const {
  std::vector<int32_t> ids;
  WorkBudget budget(end - begin);
  encode_piece(text.substr(begin, end - begin), {.at_start = begin == 0, .continuation = begin > 0},
               budget, ids);
  return ids;
}

void Pipeline::encode_piece(std::string_view text, Place place, WorkBudget& budget,
                            std::vector<int32_t>& ids) const {
  std::string storage;
  const std::string_view valid = valid_utf8(text, storage);
  auto scratch = take_scratch();
  scratch->budget = budget;
  raw_.split(
      valid, scratch->budget,
      [&](std::string_view segment) {
        const bool first = segment.data() == valid.data();
        encode_segment(segment, {place.at_start && first, place.continuation && first}, *scratch,
                       ids);
      },
      [&](int32_t id) { ids.push_back(id); });
  budget = scratch->budget;
  give_back(std::move(scratch));
}

void Pipeline::encode_segment(std::string_view text, Place place, EncodeScratch& scratch,
                              std::vector<int32_t>& ids) const {
  std::string storage;
  const std::string_view whole = parts_.normalizer.apply(
      text, place.continuation ? Normalizer::Piece::continuation : Normalizer::Piece::segment,
      scratch.budget, storage);
  normalized_.split(
      whole, scratch.budget,
      [&](std::string_view piece) {
        const bool first = piece.data() == whole.data();
        parts_.pre_tokenizer.apply({.text = piece,
                                    .at_start = place.at_start && first,
                                    .continuation = place.continuation && first},
                                   scratch.budget, [&](std::string_view word) {
                                     parts_.model->encode(word, scratch, ids);
                                   });
      },
      [&](int32_t id) { ids.push_back(id); });
}

size_t Pipeline::part_end(std::string_view text, size_t begin) const {
  WorkBudget budget(max_tries_bytes);
  return text_part_end(text, begin, [&](size_t at) { return may_cut(text, at, budget); });
}

bool Pipeline::may_cut(std::string_view text, size_t at, WorkBudget& budget) const {
  const size_t begin = at - std::min(at, context_bytes);
  const size_t end = std::min(text.size(), at + context_bytes);
  constexpr Place middle = {.at_start = false, .continuation = true};
  std::vector<int32_t> whole, halves;
  encode_piece(text.substr(begin, end - begin), middle, budget, whole);
  encode_piece(text.substr(begin, at - begin), middle, budget, halves);
  encode_piece(text.substr(at, end - at), middle, budget, halves);
  return whole == halves;
}

std::string Pipeline::decode(std::span<const int64_t> ids) const {
  std::string text;
  std::vector<std::string> run;
  const auto finish_run = [&] {
    if (!run.empty()) text += parts_.decoder.apply(std::move(run));
    run.clear();
  };
  const Vocabulary& vocabulary = parts_.model->vocabulary();
  for (const int64_t id : ids) {
    std::string token;
    if (id >= 0 && id < vocab_) {
      const auto small = static_cast<int32_t>(id);
      if (const auto added = added_text_.find(small); added != added_text_.end()) {
        token = added->second;
      } else if (id < vocabulary.size()) {
        token = vocabulary.token(small);
      }
    }
    if (token.empty()) {
      finish_run();
      text += '?';
    } else if (!special_.contains(token)) {
      run.push_back(std::move(token));
    }
  }
  finish_run();
  return text;
}

std::unique_ptr<EncodeScratch> Pipeline::take_scratch() const {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      auto scratch = std::move(idle_.back());
      idle_.pop_back();
      return scratch;
    }
  }
  return std::make_unique<EncodeScratch>();
}

void Pipeline::give_back(std::unique_ptr<EncodeScratch> scratch) const {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(scratch));
}

}  // namespace binade::data
