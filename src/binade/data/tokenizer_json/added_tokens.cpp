#include "binade/data/tokenizer_json/added_tokens.h"

#include <algorithm>

#include "binade/data/tokenizer_json/regex.h"
#include "binade/data/tokenizer_json/unicode.h"

namespace binade::data {
namespace {

uint64_t edge(uint32_t node, char byte) {
  return static_cast<uint64_t>(node) << 8U | static_cast<unsigned char>(byte);
}

// Whether the character at `at` is a word character, as Rust's \w defines it.
bool is_word(std::string_view text, size_t at) {
  static const Regex word(R"(\A[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200c}\x{200d}])", "a word");
  WorkBudget budget;
  return word.find(text.substr(at, character_at(text, at).bytes), 0, budget).has_value();
}

bool stands_alone(std::string_view text, size_t begin, size_t end) {
  return (begin == 0 || !is_word(text, character_before(text, begin))) &&
         (end == text.size() || !is_word(text, end));
}

size_t without_space_before(std::string_view text, size_t begin, size_t end) {
  while (end > begin) {
    const size_t last = character_before(text, end);
    if (!is_white_space(character_at(text, last).code)) break;
    end = last;
  }
  return end;
}

size_t behind_space(std::string_view text, size_t at) {
  while (at < text.size() && is_white_space(character_at(text, at).code))
    at += character_at(text, at).bytes;
  return at;
}

}  // namespace

WorkBudget budget_of(const std::vector<AddedToken>& tokens) {
  size_t bytes = 0;
  for (const AddedToken& token : tokens) bytes += token.content.size();
  return WorkBudget(bytes);
}

AddedTokenMatcher::AddedTokenMatcher(std::vector<Entry> entries)
    : entries_(std::move(entries)), ends_(1, -1) {
  for (size_t i = 0; i < entries_.size(); ++i) {
    uint32_t node = 0;
    for (const char byte : entries_[i].text) {
      const auto [at, is_new] = edges_.try_emplace(edge(node, byte), ends_.size());
      if (is_new) ends_.push_back(-1);
      node = at->second;
    }
    ends_[node] = static_cast<int32_t>(i);
    first_bytes_.set(static_cast<unsigned char>(entries_[i].text[0]));
  }
}

AddedTokenMatcher::Match AddedTokenMatcher::find(std::string_view text, size_t from,
                                                 WorkBudget& budget) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!first_bytes_[static_cast<unsigned char>(text[begin])]) continue;
    Match best{0, 0, nullptr};
    uint32_t node = 0;
    size_t at = begin;
    for (; at < text.size(); ++at) {
      const auto next = edges_.find(edge(node, text[at]));
      if (next == edges_.end()) break;
      node = next->second;
      if (ends_[node] >= 0)
        best = {begin, at + 1, &entries_[static_cast<size_t>(ends_[node])].token};
    }
    budget.spend(at - begin, [] { return std::string("the added tokens"); });
    if (best.token != nullptr) return best;
  }
  return {text.size(), text.size(), nullptr};
}

void AddedTokenMatcher::split(std::string_view text, WorkBudget& budget,
                              FunctionRef<void(std::string_view)> on_text,
                              FunctionRef<void(int32_t)> on_token) const {
  size_t done = 0;
  if (!empty()) {
    for (size_t from = 0;;) {
      const Match match = find(text, from, budget);
      if (match.token == nullptr) break;
      from = match.end;  // also after a match that does not count
      const AddedToken& token = *match.token;
      if (token.single_word && !stands_alone(text, match.begin, match.end)) continue;
      size_t begin = match.begin;
      if (token.lstrip) begin = std::max(without_space_before(text, done, begin), done);
      if (begin > done) on_text(text.substr(done, begin - done));
      on_token(token.id);
      // White space that an earlier token took is not searched again.
      done = token.rstrip ? behind_space(text, std::max(match.end, done)) : match.end;
    }
  }
  if (done < text.size()) on_text(text.substr(done));
}

}  // namespace binade::data
