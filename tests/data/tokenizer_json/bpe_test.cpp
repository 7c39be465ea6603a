#include "binade/data/tokenizer_json/bpe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/base/error.h"
#include "support/error_of.h"

namespace binade::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A vocabulary over few letters with random merges: many words merge, and in many orders.
struct RandomBpe {
  std::vector<std::string> tokens;
  std::vector<MergeRule> merges;

  explicit RandomBpe(uint64_t seed) {
    uint64_t state = seed * 2654435761U + 1;
    const auto next = [&](size_t below) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      return static_cast<size_t>(state >> 33U) % below;
    };
    for (const char* letter : {"a", "b", "c", "\u4E00", "\u2581", "<unk>"})
      tokens.push_back(letter);
    const size_t letters = 5;
    std::vector<size_t> parts = {0, 1, 2, 3, 4};
    while (merges.size() < 40) {
      const size_t left = parts[next(parts.size())], right = parts[next(parts.size())];
      const std::string token = tokens[left] + tokens[right];
      // Nothing joins the last letter from the left, so that long words have units.
      if (tokens[right].find(tokens[letters - 1]) != std::string::npos || token.size() > 12)
        continue;
      const auto known = std::find(tokens.begin(), tokens.end(), token);
      const auto id = static_cast<size_t>(known - tokens.begin());
      if (known == tokens.end()) {
        tokens.push_back(token);
        parts.push_back(id);
      }
      merges.push_back(
          {static_cast<int32_t>(left), static_cast<int32_t>(right), static_cast<int32_t>(id)});
    }
  }

  std::string word(uint64_t seed, size_t letters) const {
    std::string text;
    for (size_t i = 0; i < letters; ++i) {
      seed = seed * 6364136223846793005U + 1442695040888963407U;
      const size_t which = (seed >> 33U) % 6;
      text += which == 5 ? "?" : tokens[which];  // unknown now and then
    }
    return text;
  }
};

// The definition: the rule of the lowest rank, at the leftmost place, until there is none.
std::vector<int32_t> merged_by_definition(std::vector<int32_t> symbols,
                                          const std::vector<MergeRule>& rules) {
  for (;;) {
    size_t best_rank = rules.size(), best_at = 0;
    for (size_t at = 0; at + 1 < symbols.size(); ++at) {
      for (size_t rank = rules.size(); rank-- > 0;) {
        // Of two rules for the same neighbors the last counts.
        if (rules[rank].left != symbols[at] || rules[rank].right != symbols[at + 1]) continue;
        if (rank < best_rank) {
          best_rank = rank;
          best_at = at;
        }
        break;
      }
    }
    if (best_rank == rules.size()) return symbols;
    symbols[best_at] = rules[best_rank].result;
    symbols.erase(symbols.begin() + static_cast<int64_t>(best_at) + 1);
  }
}

TEST(Bpe, MergesByDefinition) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const RandomBpe random(seed);
    const Bpe bpe(Vocabulary(random.tokens), random.merges, {.unknown = "<unk>"});
    EncodeScratch scratch;
    for (const size_t letters : {1, 2, 7, 20, 60, 70, 300}) {
      for (uint64_t i = 0; i < (letters < 50 ? 40U : 4U); ++i) {
        const std::string word = random.word(seed * 1000 + i, letters);
        std::vector<int32_t> symbols;
        for (size_t at = 0; at < word.size();) {
          const size_t bytes = static_cast<unsigned char>(word[at]) < 0x80 ? 1 : 3;
          const auto id = Vocabulary(random.tokens).id_of(word.substr(at, bytes));
          symbols.push_back(id.value_or(5));
          at += bytes;
        }
        const auto expected = merged_by_definition(symbols, random.merges);
        for (int again = 0; again < 2; ++again) {  // the second time from the cache
          std::vector<int32_t> ids;
          bpe.encode(word, scratch, ids);
          ASSERT_EQ(ids, expected) << word << " of seed " << seed;
        }
      }
    }
  }
}

std::vector<int32_t> ids_of(const TokenModel& model, const std::string& word) {
  EncodeScratch scratch;
  std::vector<int32_t> ids;
  model.encode(word, scratch, ids);
  return ids;
}

TEST(Bpe, UnknownCharacters) {
  const Vocabulary vocabulary({"<unk>", "a", "b", "ab", "<0xC3>", "<0xA4>", "<0x78>"});
  const std::vector<MergeRule> merges = {{1, 2, 3}};
  const auto with = [&](const BpeOptions& options) { return Bpe(vocabulary, merges, options); };
  EXPECT_THAT(ids_of(with({}), "axb"), ElementsAre(3));
  EXPECT_THAT(ids_of(with({.unknown = "<unk>"}), "ayyb"), ElementsAre(1, 0, 0, 2));
  EXPECT_THAT(ids_of(with({.fuse_unknown = true, .unknown = "<unk>"}), "ayyb"),
              ElementsAre(1, 0, 2));
  EXPECT_THAT(ids_of(with({.byte_fallback = true}), "a\u00E4b"), ElementsAre(1, 4, 5, 2));
  // All bytes of a character have tokens, or none counts; an unknown one waits for its like.
  EXPECT_THAT(ids_of(with({.byte_fallback = true, .unknown = "<unk>"}), "\u00E5xb"),
              ElementsAre(6, 0, 2));
  EXPECT_THAT(test::error_of([&] { ids_of(with({.unknown = "<none>"}), "ay"); }),
              HasSubstr("U+0079"));
}

TEST(Bpe, LongWordsWithCharactersThatAreLeftOut) {
  const Bpe bpe(Vocabulary({"a", "b", "ab"}), {{0, 1, 2}}, {});
  std::string word;
  for (int i = 0; i < 100; ++i) word += "axb";
  EXPECT_EQ(ids_of(bpe, word), std::vector<int32_t>(100, 2));
}

TEST(Bpe, AWordThatIsATokenWhateverItsMerges) {
  const Vocabulary vocabulary({"a", "b", "c", "ab", "abc"});
  const std::vector<MergeRule> merges = {{0, 1, 3}};
  EXPECT_THAT(ids_of(Bpe(vocabulary, merges, {}), "abc"), ElementsAre(3, 2));
  EXPECT_THAT(ids_of(Bpe(vocabulary, merges, {.ignore_merges = true}), "abc"), ElementsAre(4));
}

TEST(Bpe, BytesAreCharactersOfTheVocabulary) {
  const Vocabulary vocabulary({"\u0120", "a", "\u00C3", "\u00A4", "\u0120a"});
  const Bpe bpe(vocabulary, {{0, 1, 4}}, {.byte_level = true, .ignore_merges = true});
  EXPECT_THAT(ids_of(bpe, " a"), ElementsAre(4));
  EXPECT_THAT(ids_of(bpe, " \u00E4"), ElementsAre(0, 2, 3));
}

}  // namespace
}  // namespace binade::data
