#include "binade/train/origin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/train/config/config.h"
#include "train/small_run.h"

namespace binade::train {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

data::Split split_of(const std::string& train, const std::string& validation) {
  return {data::Tokens::of_bytes(train), data::Tokens::of_bytes(validation)};
}

TEST(Origin, RunIdsDiffer) {
  EXPECT_EQ(new_run_id().size(), 32u);
  EXPECT_NE(new_run_id(), new_run_id());
}

// Each source of a mixture has its own hash and weight.
TEST(Origin, EverySourceOfAMixtureCounts) {
  const auto described = [](const std::string& second, double weight) {
    const data::Tokens train[] = {data::Tokens::of_bytes("first"), data::Tokens::of_bytes(second)};
    const data::Tokens held[] = {data::Tokens::of_bytes("a"), data::Tokens::of_bytes("b")};
    const double weights[] = {3, weight};
    return describe_data({data::Tokens::mixed(train, weights), data::Tokens::mixed(held, weights)});
  };
  const std::string expected = described("second", 1);
  EXPECT_EQ(described("second", 1), expected);
  EXPECT_NE(described("second", 2), expected);
  EXPECT_NE(described("Second", 1), expected);
  EXPECT_EQ(expected.substr(0, expected.find(", 1 x")),
            "3 x (" + describe_data(split_of("first", "a")) + ")");
}

TEST(Origin, EveryTokenCounts) {
  const std::string text = small_text();
  const std::string expected = describe_data(split_of(text, "validation"));
  EXPECT_EQ(describe_data(split_of(text, "validation")), expected);
  for (size_t i = 0; i < text.size(); i += 97) {
    std::string changed = text;
    changed[i] ^= 1;
    EXPECT_NE(describe_data(split_of(changed, "validation")), expected) << i;
  }
  EXPECT_NE(describe_data(split_of(text, "validatioN")), expected);
  EXPECT_NE(describe_data(split_of(text + "v", "alidation")), expected);
}

// Only blocks of large data are hashed, the first and the last among them.
TEST(Origin, LargeDataThatGrowOrChangeAtTheirEndsDiffer) {
  std::string text((size_t{1} << 24) + 12345, 'a');
  const std::string expected = describe_data(split_of(text, "v"));
  text.front() = 'b';
  EXPECT_NE(describe_data(split_of(text, "v")), expected);
  text.front() = 'a';
  text.back() = 'b';
  EXPECT_NE(describe_data(split_of(text, "v")), expected);
  text.back() = 'a';
  EXPECT_EQ(describe_data(split_of(text, "v")), expected);
  EXPECT_NE(describe_data(split_of(text + "a", "v")), expected);
}

TEST(Origin, NamesTheArithmetic) {
  EXPECT_THAT(describe_arithmetic(Device::cpu()), ::testing::StartsWith("cpu "));
}

TEST(Origin, ListsSettingsThatChangeBits) {
  Config before = small_config(), after = small_config();
  EXPECT_THAT(changed_settings(to_toml(before), to_toml(after)), IsEmpty());
  after.threads = 3;
  after.keep = 7;
  after.out = "elsewhere";
  after.log_every = 3;
  EXPECT_THAT(changed_settings(to_toml(before), to_toml(after)), IsEmpty());
  after.batch = 5;
  after.seed = 1;
  after.precision = Precision::bf16;
  EXPECT_THAT(changed_settings(to_toml(before), to_toml(after)),
              ElementsAre("precision \"fp32\" -> \"bf16\"", "batch 2 -> 5", "seed 0 -> 1"));
  before = after;
  before.overrides.push_back({.module = "blocks.0", .recipe = no_recipe});
  EXPECT_THAT(changed_settings(to_toml(before), to_toml(after)),
              ElementsAre("module \"blocks.0\" -> unset", "recipe \"none\" -> unset"));
  before = after;
  before.order = dist::ReduceOrder::any;
  EXPECT_THAT(changed_settings(to_toml(before), to_toml(after)),
              ElementsAre("order \"any\" -> \"fixed\""));
}

}  // namespace
}  // namespace binade::train
