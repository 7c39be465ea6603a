#include "binade/data/tokenizer_json/unigram.h"

#include <algorithm>
#include <limits>

#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/data/tokenizer_json/unicode.h"

namespace binade::data {
namespace {

constexpr double unknown_penalty = 10;  // below the lowest score, as SentencePiece has it

// The best split of a word up to some byte.
struct Step {
  double score = 0;
  size_t begin = std::string_view::npos;  // of the last token; npos: no split yet
  int32_t id = 0;
};

}  // namespace

Unigram::Unigram(Vocabulary vocabulary, std::vector<double> scores, UnigramOptions options)
    : TokenModel(std::move(vocabulary)),
      options_(options),
      scores_(std::move(scores)),
      unknown_score_(*std::min_element(scores_.begin(), scores_.end()) - unknown_penalty),
      trie_(this->vocabulary()) {}

void Unigram::encode(std::string_view word, EncodeScratch& scratch,
                     std::vector<int32_t>& ids) const {
  encode_cached(word, scratch, ids, [&] { encode_word(word, scratch.budget, ids); });
}

void Unigram::encode_word(std::string_view word, WorkBudget& budget,
                          std::vector<int32_t>& ids) const {
  std::vector<Step> best(word.size() + 1);
  // Whether a token from `begin` to `end` gives the best split so far.
  const auto offer = [&](size_t begin, size_t end, double score, int32_t id) {
    Step& step = best[end];
    const bool better = step.begin == std::string_view::npos || score > step.score;
    if (better) step = {score, begin, id};
    return better;
  };
  for (size_t begin = 0; begin < word.size();) {
    const size_t character = character_at(word, begin).bytes;
    bool has_single = false;
    TokenTrie::Node node = TokenTrie::root;
    size_t at = begin;
    for (; at < word.size(); ++at) {
      node = trie_.next(node, word[at]);
      if (node == TokenTrie::none) break;
      const int32_t id = trie_.token_at(node);
      if (id < 0) continue;
      offer(begin, at + 1, scores_[static_cast<size_t>(id)] + best[begin].score, id);
      has_single |= at + 1 == begin + character;
    }
    budget.spend(at - begin, [] { return std::string("the vocabulary"); });
    const size_t end = begin + character;
    if (!has_single && offer(begin, end, unknown_score_ + best[begin].score, -1))
      best[end].id = unknown_id(word.substr(begin, character));
    begin = end;
  }
  std::vector<std::string_view> texts;  // from the last to the first; unknown ones joined
  bool last_unknown = false;
  for (size_t end = word.size(); end > 0; end = best[end].begin) {
    const size_t begin = best[end].begin;
    const bool unknown = options_.unknown == best[end].id;
    if (unknown && last_unknown) {
      texts.back() = {word.data() + begin, texts.back().size() + end - begin};
    } else {
      texts.push_back(word.substr(begin, end - begin));
    }
    last_unknown = unknown;
  }
  for (size_t i = texts.size(); i-- > 0;) append_text(texts[i], ids);
}

void Unigram::append_text(std::string_view text, std::vector<int32_t>& ids) const {
  if (const auto id = vocabulary().id_of(text)) {
    ids.push_back(*id);
    return;
  }
  if (options_.byte_fallback) {
    const size_t before = ids.size();
    for (const char byte : text) {
      const auto id = vocabulary().id_of_byte(static_cast<unsigned char>(byte));
      if (!id) break;
      ids.push_back(*id);
    }
    if (ids.size() == before + text.size()) return;
    ids.resize(before);
  }
  ids.push_back(unknown_id(text));
}

int32_t Unigram::unknown_id(std::string_view text) const {
  if (options_.unknown) return *options_.unknown;
  fail("tokenizer", {.argument = "the text " + json::in_quotes(text),
                     .expected = "tokens for it, or an unk_id",
                     .found = "neither"});
}

}  // namespace binade::data
