#include "binade/data/tokenizer_json/bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <queue>

#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/data/tokenizer_json/byte_level.h"
#include "binade/data/tokenizer_json/unicode.h"

namespace binade::data {
namespace {

// Up to this many symbols a scan of all pairs is faster than a heap.
constexpr size_t max_scanned = 64;
// Longer words (in bytes) are first cut where no merge can join two characters.
constexpr size_t long_word = 128;

uint64_t pair_of(uint64_t left, uint64_t right) { return left << 32U | right; }

uint32_t id_in(uint64_t merge) { return static_cast<uint32_t>(merge); }

}  // namespace

Bpe::Bpe(Vocabulary vocabulary, const std::vector<MergeRule>& merges, BpeOptions options)
    : TokenModel(std::move(vocabulary)), options_(std::move(options)), merges_(merges.size()) {
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const auto [left, right, result] = merges[rank];
    merges_.set(pair_of(static_cast<uint32_t>(left), static_cast<uint32_t>(right)),
                pair_of(rank, static_cast<uint32_t>(result)));
    const std::string& token = this->vocabulary().token(result);
    char32_t before = character_at(token, 0).code;
    for (size_t at = character_at(token, 0).bytes; at < token.size();) {
      const auto [code, bytes] = character_at(token, at);
      joints_.set(pair_of(before, code), 1);
      before = code;
      at += bytes;
    }
  }
  low_characters_.fill(-1);
  for (int64_t id = 0; id < this->vocabulary().size(); ++id) {
    const std::string& token = this->vocabulary().token(static_cast<int32_t>(id));
    if (token.empty() || character_at(token, 0).bytes != token.size()) continue;
    const char32_t code = character_at(token, 0).code;
    (code < low_codes ? low_characters_[code] : characters_[code]) = static_cast<int32_t>(id);
  }
  for (unsigned byte = 0; byte < 256; ++byte) {
    bytes_[byte] = this->vocabulary().id_of_byte(static_cast<unsigned char>(byte)).value_or(-1);
  }
  // With only some byte tokens, an unknown character may come out after the bytes of the next ones;
  // with ignore_merges a unit would be taken for a whole word.
  const bool all_bytes = std::find(bytes_.begin(), bytes_.end(), -1) == bytes_.end();
  has_units_ = !options_.ignore_merges && (!options_.byte_fallback || all_bytes);
}

void Bpe::encode(std::string_view word, EncodeScratch& scratch, std::vector<int32_t>& ids) const {
  if (word.size() > long_word && has_units_) return encode_units(word, scratch, ids);
  encode_cached(word, scratch, ids, [&] { encode_word(word, scratch, ids); });
}

// Merges join two characters only if some token has them side by side. Elsewhere the word is cut
// into units, most of which are in the cache: to models without a pre-tokenizer (Llama 2's) a whole
// text is one word.
void Bpe::encode_units(std::string_view word, EncodeScratch& scratch,
                       std::vector<int32_t>& ids) const {
  size_t begin = 0;
  char32_t before = 0;
  const auto finish = [&](size_t end) {
    const std::string_view unit = word.substr(begin, end - begin);
    encode_cached(unit, scratch, ids, [&] { encode_word(unit, scratch, ids); });
    begin = end;
  };
  each_character(word, [&](char32_t code, size_t at) {
    if (at > begin && are_separate(before, code)) finish(at);
    before = code;
  });
  finish(word.size());
}

bool Bpe::are_separate(char32_t left, char32_t right) const {
  if (joints_.find(pair_of(left, right)) != FlatMap::none) return false;
  const bool left_known = id_of(left) >= 0, right_known = id_of(right) >= 0;
  if ((left_known && right_known) || options_.byte_fallback) return true;
  // The neighbors of a dropped character become adjacent; unknown characters may be fused.
  if (options_.unknown.empty()) return false;
  return !options_.fuse_unknown || left_known || right_known;
}

void Bpe::encode_word(std::string_view word, EncodeScratch& scratch,
                      std::vector<int32_t>& ids) const {
  if (options_.ignore_merges) {
    const auto whole =
        options_.byte_level ? vocabulary().id_of(byte_level_text(word)) : vocabulary().id_of(word);
    if (whole) {
      ids.push_back(*whole);
      return;
    }
  }
  std::vector<int32_t>& symbols = scratch.symbols;
  symbols.clear();
  append_symbols(word, symbols);
  symbols.size() <= max_scanned ? merge_short(symbols) : merge_long(symbols);
  ids.insert(ids.end(), symbols.begin(), symbols.end());
}

// Calls visit(character, index of its first byte).
template <class Visit>
void Bpe::each_character(std::string_view word, Visit&& visit) const {
  if (options_.byte_level) {
    static const auto characters = [] {
      std::array<char32_t, 256> table = {};
      for (unsigned byte = 0; byte < 256; ++byte)
        table[byte] = character_of_byte(static_cast<unsigned char>(byte));
      return table;
    }();
    for (size_t at = 0; at < word.size(); ++at)
      visit(characters[static_cast<unsigned char>(word[at])], at);
  } else {
    for (size_t at = 0; at < word.size();) {
      const auto [code, bytes] = character_at(word, at);
      visit(code, at);
      at += bytes;
    }
  }
}

void Bpe::append_symbols(std::string_view word, std::vector<int32_t>& symbols) const {
  int32_t unknown = -1;  // not yet appended: the next may be fused with it
  const auto flush = [&] {
    if (unknown >= 0) symbols.push_back(unknown);
    unknown = -1;
  };
  each_character(word, [&](char32_t code, size_t) {
    if (const int32_t id = id_of(code); id >= 0) {
      flush();
      symbols.push_back(id);
    } else if (!append_bytes(code, symbols) && !options_.unknown.empty()) {
      if (!options_.fuse_unknown) flush();
      unknown = unknown_id(code);
    }
  });
  flush();
}

// All bytes of a character as tokens, or none of them.
bool Bpe::append_bytes(char32_t code, std::vector<int32_t>& symbols) const {
  if (!options_.byte_fallback) return false;
  std::string text;
  append_character(text, code);
  const auto id_of_byte = [&](char byte) { return bytes_[static_cast<unsigned char>(byte)]; };
  for (const char byte : text) {
    if (id_of_byte(byte) < 0) return false;
  }
  for (const char byte : text) symbols.push_back(id_of_byte(byte));
  return true;
}

int32_t Bpe::id_of(char32_t code) const {
  if (code < low_codes) return low_characters_[code];
  const auto found = characters_.find(code);
  return found == characters_.end() ? -1 : found->second;
}

int32_t Bpe::unknown_id(char32_t code) const {
  if (const auto id = vocabulary().id_of(options_.unknown)) return *id;
  fail("tokenizer", {.argument = "the character U+" + fmt::format("{:04X}", uint32_t{code}),
                     .expected = "a token for it, or the unknown token " +
                                 json::in_quotes(options_.unknown) + " in the vocabulary",
                     .found = "neither"});
}

// The rank in the high bits, the new id in the low ones: the smallest value is the next merge.
uint64_t Bpe::merge_of(int32_t left, int32_t right) const {
  return merges_.find(pair_of(static_cast<uint32_t>(left), static_cast<uint32_t>(right)));
}

void Bpe::merge_short(std::vector<int32_t>& symbols) const {
  if (symbols.size() < 2) return;
  std::array<uint64_t, max_scanned> merges;
  size_t pairs = symbols.size() - 1;
  for (size_t i = 0; i < pairs; ++i) merges[i] = merge_of(symbols[i], symbols[i + 1]);
  while (pairs > 0) {
    const size_t best = static_cast<size_t>(
        std::min_element(merges.begin(), merges.begin() + static_cast<int64_t>(pairs)) -
        merges.begin());
    if (merges[best] == FlatMap::none) break;
    symbols[best] = static_cast<int32_t>(id_in(merges[best]));
    std::copy(symbols.begin() + static_cast<int64_t>(best) + 2,
              symbols.begin() + static_cast<int64_t>(pairs) + 1,
              symbols.begin() + static_cast<int64_t>(best) + 1);
    std::copy(merges.begin() + static_cast<int64_t>(best) + 1,
              merges.begin() + static_cast<int64_t>(pairs),
              merges.begin() + static_cast<int64_t>(best));
    --pairs;
    if (best > 0) merges[best - 1] = merge_of(symbols[best - 1], symbols[best]);
    if (best < pairs) merges[best] = merge_of(symbols[best], symbols[best + 1]);
  }
  symbols.resize(pairs + 1);
}

void Bpe::merge_long(std::vector<int32_t>& symbols) const {
  constexpr int32_t gone = -1;
  const size_t count = symbols.size();
  std::vector<size_t> next(count), before(count);
  struct Candidate {
    uint64_t merge;
    size_t at;
    bool operator>(const Candidate& other) const {
      return merge != other.merge ? merge > other.merge : at > other.at;
    }
  };
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates;
  const auto consider = [&](size_t at) {
    if (at >= count || next[at] >= count) return;
    const uint64_t merge = merge_of(symbols[at], symbols[next[at]]);
    if (merge != FlatMap::none) candidates.push({merge, at});
  };
  for (size_t i = 0; i < count; ++i) {
    next[i] = i + 1;
    before[i] = i - 1;  // past the end for the first
  }
  for (size_t i = 0; i < count; ++i) consider(i);
  while (!candidates.empty()) {
    const auto [merge, at] = candidates.top();
    candidates.pop();
    // The pair may have changed since.
    if (symbols[at] == gone || next[at] >= count ||
        merge_of(symbols[at], symbols[next[at]]) != merge)
      continue;
    symbols[at] = static_cast<int32_t>(id_in(merge));
    symbols[next[at]] = gone;
    next[at] = next[next[at]];
    if (next[at] < count) before[next[at]] = at;
    consider(before[at]);
    consider(at);
  }
  symbols.erase(std::remove(symbols.begin(), symbols.end(), gone), symbols.end());
}

}  // namespace binade::data
