#include "binade/data/tokenizer_json/bpe_trainer.h"

#include <algorithm>
#include <queue>
#include <unordered_map>

#include "binade/base/error.h"
#include "binade/base/parallel.h"
#include "binade/data/tokenizer_json/byte_level.h"
#include "binade/data/tokenizer_json/pattern.h"
#include "binade/data/tokenizer_json/text_parts.h"

namespace binade::data {
namespace {

constexpr const char* trainer_op = "tokenizer";
constexpr int64_t max_bpe_text = int64_t{1} << 30;
// A pair that occurs once would make a token that occurs once.
constexpr int64_t least_count = 2;

using WordCounts = std::unordered_map<std::string, int64_t>;

WordCounts count_part(std::string_view text) {
  static const Pattern pattern(Regex(llama3_pattern, "the split pattern"));
  std::string storage;
  WordCounts counts;
  WorkBudget budget(text.size());
  pattern.each_part(valid_utf8(text, storage), budget,
                    [&](std::string_view word, bool) { ++counts[std::string(word)]; });
  return counts;
}

WordCounts count_words(std::string_view text) {
  constexpr size_t parts_at_a_time = 256;  // of 64 kB each
  WordCounts all;
  for (size_t begin = 0; begin < text.size();) {
    std::vector<std::string_view> parts;
    while (begin < text.size() && parts.size() < parts_at_a_time) {
      const size_t end = text_part_end(text, begin, [](size_t) { return true; });
      parts.push_back(text.substr(begin, end - begin));
      begin = end;
    }
    std::vector<WordCounts> counts(parts.size());
    parallel_for(static_cast<int64_t>(parts.size()), 1, [&](int64_t first, int64_t last) {
      for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(last); ++i)
        counts[i] = count_part(parts[i]);
    });
    for (const WordCounts& part : counts) {
      for (const auto& [word, count] : part) all[word] += count;
    }
  }
  return all;
}

uint64_t key_of(int32_t left, int32_t right) {
  return static_cast<uint64_t>(left) << 32U | static_cast<uint32_t>(right);
}
int32_t left_of(uint64_t key) { return static_cast<int32_t>(key >> 32U); }
int32_t right_of(uint64_t key) { return static_cast<int32_t>(key); }

class Trainer {
 public:
  Trainer(const WordCounts& counts, std::vector<std::string> tokens) : tokens_(std::move(tokens)) {
    for (size_t id = 0; id < tokens_.size(); ++id) ids_[tokens_[id]] = static_cast<int32_t>(id);
    for (const auto& [text, count] : counts) {
      Word word{.count = count};
      for (const char byte : text) {
        std::string character;
        append_character(character, character_of_byte(static_cast<unsigned char>(byte)));
        word.symbols.push_back(ids_.at(character));
      }
      words_.push_back(std::move(word));
    }
    for (size_t i = 0; i < words_.size(); ++i) {
      const std::vector<int32_t>& symbols = words_[i].symbols;
      for (size_t at = 0; at + 1 < symbols.size(); ++at)
        add_pair(symbols[at], symbols[at + 1], i, words_[i].count);
    }
    push_changed();
  }

  // Whether there was a pair to merge.
  bool merge_next() {
    while (!candidates_.empty()) {
      const Candidate top = candidates_.top();
      candidates_.pop();
      const auto found = pairs_.find(top.key);
      const int64_t count = found == pairs_.end() ? 0 : found->second.count;
      if (count < least_count) continue;
      if (count != top.count) {  // other merges have consumed some
        candidates_.push({count, top.key});
        continue;
      }
      merge(top.key, std::move(found->second.words));
      return true;
    }
    return false;
  }

  const std::vector<std::string>& tokens() const { return tokens_; }
  const std::vector<MergeRule>& merges() const { return merges_; }

 private:
  struct Word {
    std::vector<int32_t> symbols = {};
    int64_t count = 0;
  };
  struct Pair {
    int64_t count = 0;
    std::vector<size_t> words = {};  // that may contain it; with duplicates
  };
  struct Candidate {
    int64_t count;
    uint64_t key;
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : key > other.key;
    }
  };

  void add_pair(int32_t left, int32_t right, size_t word, int64_t count) {
    const uint64_t key = key_of(left, right);
    Pair& pair = pairs_[key];
    pair.count += count;
    if (pair.words.empty() || pair.words.back() != word) pair.words.push_back(word);
    changed_.push_back(key);
  }

  void remove_pair(int32_t left, int32_t right, int64_t count) {
    pairs_[key_of(left, right)].count -= count;
  }

  void push_changed() {
    std::sort(changed_.begin(), changed_.end());
    changed_.erase(std::unique(changed_.begin(), changed_.end()), changed_.end());
    for (const uint64_t key : changed_) candidates_.push({pairs_[key].count, key});
    changed_.clear();
  }

  void merge(uint64_t key, std::vector<size_t> words) {
    const int32_t left = left_of(key), right = right_of(key);
    std::string token = tokens_[static_cast<size_t>(left)] + tokens_[static_cast<size_t>(right)];
    const auto [known, is_new] = ids_.try_emplace(token, static_cast<int32_t>(tokens_.size()));
    if (is_new) tokens_.push_back(std::move(token));
    merges_.push_back({left, right, known->second});
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    for (const size_t word : words) merge_in(word, merges_.back());
    pairs_.erase(key);
    push_changed();
  }

  void merge_in(size_t index, const MergeRule& rule) {
    auto& [symbols, count] = words_[index];
    for (size_t at = 0; at + 1 < symbols.size(); ++at) {
      if (symbols[at] != rule.left || symbols[at + 1] != rule.right) continue;
      if (at > 0) {
        remove_pair(symbols[at - 1], rule.left, count);
        add_pair(symbols[at - 1], rule.result, index, count);
      }
      if (at + 2 < symbols.size()) {
        remove_pair(rule.right, symbols[at + 2], count);
        add_pair(rule.result, symbols[at + 2], index, count);
      }
      symbols[at] = rule.result;
      symbols.erase(symbols.begin() + static_cast<int64_t>(at) + 1);
    }
  }

  std::vector<std::string> tokens_;
  std::unordered_map<std::string, int32_t> ids_;
  std::vector<MergeRule> merges_;
  std::vector<Word> words_;
  std::unordered_map<uint64_t, Pair> pairs_;
  std::priority_queue<Candidate> candidates_;
  std::vector<uint64_t> changed_;
};

// The characters of all bytes, sorted.
std::vector<std::string> alphabet() {
  std::vector<char32_t> codes;
  for (int byte = 0; byte < 256; ++byte)
    codes.push_back(character_of_byte(static_cast<unsigned char>(byte)));
  std::sort(codes.begin(), codes.end());
  std::vector<std::string> characters(codes.size());
  for (size_t i = 0; i < codes.size(); ++i) append_character(characters[i], codes[i]);
  return characters;
}

}  // namespace

ByteLevelBpe train_byte_level_bpe(std::string_view text, int64_t vocab, const std::string& name) {
  if (std::cmp_greater(text.size(), max_bpe_text)) {
    fail(trainer_op, {.argument = name,
                      .expected = "at most " + std::to_string(max_bpe_text) + " bytes to train on",
                      .found = std::to_string(text.size()),
                      .hint = "a part of the text gives the same pieces"});
  }
  constexpr const char* end_of_text = "<|endoftext|>";
  std::vector<std::string> tokens = {end_of_text};
  for (std::string& character : alphabet()) tokens.push_back(std::move(character));
  if (vocab < std::ssize(tokens)) {
    fail(trainer_op,
         {.argument = "--vocab",
          .expected = "at least " + std::to_string(tokens.size()) + ": every byte is a token",
          .found = std::to_string(vocab)});
  }
  Trainer trainer(count_words(text), std::move(tokens));
  while (std::ssize(trainer.tokens()) < vocab) {
    if (!trainer.merge_next()) {
      fail(trainer_op, {.argument = name + ", --vocab " + std::to_string(vocab),
                        .expected = "a text with pieces for that vocabulary",
                        .found = "pieces for " + std::to_string(trainer.tokens().size()),
                        .hint = "use a smaller --vocab or more text"});
    }
  }
  return {
      .tokens = trainer.tokens(),
      .merges = trainer.merges(),
      .added_tokens = {{.id = 0, .content = end_of_text, .normalized = false, .special = true}}};
}

}  // namespace binade::data
