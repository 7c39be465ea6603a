#include "binade/data/token_statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace binade::data {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(TokenStatistics, CountsIds) {
  const TokenStatistics s = statistics_of(Tokens::of_bytes("aabac"));
  EXPECT_EQ(s.count, 5);
  EXPECT_EQ(s.distinct, 3);
  EXPECT_EQ(s.smallest, 'a');
  EXPECT_EQ(s.largest, 'c');
  EXPECT_THAT(s.commonest, ElementsAre(Pair('a', 3), Pair('b', 1), Pair('c', 1)));
}

TEST(TokenStatistics, EntropyIsThatOfTheShares) {
  EXPECT_EQ(statistics_of(Tokens::of_bytes("abcdabcd")).entropy, 2);
  EXPECT_EQ(statistics_of(Tokens::of_bytes("aaaa")).entropy, 0);
}

TEST(TokenStatistics, TakesIdsOf32Bits) {
  const auto ids = std::make_shared<const std::vector<uint32_t>>(
      std::vector<uint32_t>{4'000'000'000, 7, 4'000'000'000});
  const TokenStatistics s =
      statistics_of({ids, reinterpret_cast<const std::byte*>(ids->data()), 4, 3});
  EXPECT_EQ(s.largest, 4'000'000'000);
  EXPECT_THAT(s.commonest, ElementsAre(Pair(4'000'000'000, 2), Pair(7, 1)));
}

TEST(TokenStatistics, NoTokensHaveNone) { EXPECT_EQ(statistics_of(Tokens()).distinct, 0); }

}  // namespace
}  // namespace binade::data
