#include "binade/data/mixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/base/error.h"

namespace binade::data {
namespace {

using Parts = std::vector<std::pair<std::string, double>>;

Parts parts_of(const std::string& data) {
  Parts parts;
  for (const MixturePart& part : mixture_of(data)) parts.emplace_back(part.where, part.weight);
  return parts;
}

TEST(Mixture, IsAListOfWeightsAndSources) {
  EXPECT_EQ(parts_of("3*books,1*code.jsonl.zst"), (Parts{{"books", 3}, {"code.jsonl.zst", 1}}));
  EXPECT_EQ(parts_of("0.25*a, 1e-1*b/c d"), (Parts{{"a", 0.25}, {"b/c d", 0.1}}));
  EXPECT_EQ(parts_of("2*only"), (Parts{{"only", 2}}));
}

// Only a number and an asterisk make a mixture: other names keep their commas, digits and stars.
TEST(Mixture, AnyOtherTextIsOneSource) {
  for (const std::string name : {"book.txt", "a,b", "3 books", "*", "x*y,2*z", "", "./2*odd", "12"})
    EXPECT_EQ(parts_of(name), (Parts{{name, 1}}));
  EXPECT_EQ(parts_of("1*a,b,2*c,"), (Parts{{"a,b", 1}, {"c,", 2}}));
}

TEST(Mixture, RefusesWhatCannotBeDrawnFrom) {
  for (const char* bad : {"0*a", "-1*a,2*b", "1*", "1*a,0*b", "1*,2*b", "nan*a", "inf*a", "1*a,1*"})
    EXPECT_THROW(mixture_of(bad), Error) << bad;
}

TEST(Mixture, KnowsTokenFiles) {
  EXPECT_TRUE(are_token_files("a.bin"));
  EXPECT_TRUE(are_token_files("1*a.bin,2*b.bin"));
  EXPECT_FALSE(are_token_files("1*a.bin,2*b.txt"));
}

}  // namespace
}  // namespace binade::data
