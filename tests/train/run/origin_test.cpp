#include "binade/train/run/origin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/amp/recipe/text.h"
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

// Of four times as much, a quarter is hashed, blocks of 4096 tokens everywhere.
TEST(Origin, LargeDataThatChangeInOneSixteenthDiffer) {
  constexpr size_t size = size_t{1} << 26, part = size / 16;
  std::string text(size, 'a');
  const std::string expected = describe_data(split_of(text, "v"));
  for (const size_t at : {3, 9, 14}) {
    std::fill_n(text.begin() + static_cast<std::ptrdiff_t>(at * part), 4 * 4096, 'b');
    EXPECT_NE(describe_data(split_of(text, "v")), expected) << at;
    std::fill_n(text.begin() + static_cast<std::ptrdiff_t>(at * part), 4 * 4096, 'a');
  }
}

TEST(Origin, NamesTheArithmetic) {
  EXPECT_THAT(describe_arithmetic(Device::cpu()), ::testing::StartsWith("cpu "));
}

// "batch 2 -> 5" of each setting that changes bits, others in parentheses.
std::vector<std::string> changes_of(const Config& before, const Config& after) {
  std::vector<std::string> texts;
  for (const SettingChange& one : all_changed_settings(before, after)) {
    const std::string text = one.name + " " + one.from + " -> " + one.to;
    texts.push_back(one.changes_bits ? text : "(" + text + ")");
  }
  return texts;
}

TEST(Origin, ListsSettingsThatChangeBits) {
  Config before = small_config(), after = small_config();
  EXPECT_THAT(changes_of(before, after), IsEmpty());
  after.train.threads = 3;
  after.run.keep = 7;
  after.run.out = "elsewhere";
  after.train.activations = nn::Activations::recompute();
  after.train.steps = 9;
  EXPECT_THAT(changes_of(before, after),
              ElementsAre("(keep 2 -> 7)", "(out  -> elsewhere)", "(activations auto -> recompute)",
                          "(steps 6 -> 9)", "(threads 0 -> 3)"));
  before = after;
  after.train.batch = 5;
  after.train.seed = 1;
  after.precision.matmul = Precision::bf16;
  after.lora.rank = 4;
  EXPECT_THAT(changes_of(before, after), ElementsAre("lora-rank 0 -> 4", "precision fp32 -> bf16",
                                                     "batch 2 -> 5", "seed 0 -> 1"));
  before = after;
  before.precision.overrides.push_back({.module = "blocks.0", .recipe = no_recipe});
  EXPECT_THAT(changes_of(before, after),
              ElementsAre("override blocks.0 -> unset", "override none -> unset"));
  before = after;
  before.ranks.order = ranks::ReduceOrder::any;
  EXPECT_THAT(changes_of(before, after), ElementsAre("order any -> fixed"));
}

// A run of an earlier version has keys fp8_*, which say the same as a recipe.
TEST(Origin, KeysOfEarlierVersionsAreNoChanges) {
  Config now = small_config();
  now.precision.matmul = Precision::quantized;
  now.precision.recipe = amp::parse_recipe("delayed, history = 4, head = true");
  std::string earlier = to_toml(now);
  const size_t begin = earlier.find("recipe = "), end = earlier.find('\n', begin);
  earlier.replace(begin, end - begin,
                  "fp8_scaling = \"delayed\"\nfp8_history = 4\nfp8_head = true");
  const auto changes = [&now](const std::string& saved) {
    return all_changed_settings(saved_values(saved, "config.toml"), now);
  };
  EXPECT_THAT(changes(to_toml(now)), IsEmpty());
  EXPECT_THAT(changes(earlier), IsEmpty());
  now.precision.recipe = amp::parse_recipe("delayed, history = 5, head = true");
  ASSERT_EQ(changes(earlier).size(), 1);
  EXPECT_EQ(changes(earlier)[0].name, "recipe");
  EXPECT_TRUE(changes(earlier)[0].changes_bits);
}

TEST(Origin, WhatCanBeAllowedIsWhatChangesBits) {
  const std::vector<std::string> names = changeable_names();
  for (const char* name : {"data", "tokenizer", "arithmetic", "batch", "seed", "reduce-dtype", "lr",
                           "order", "lora-alpha", "precision", "recipe", "override"})
    EXPECT_THAT(names, ::testing::Contains(name));
  for (const char* name : {"layers", "steps", "threads", "keep", "out", "device"})
    EXPECT_THAT(names, ::testing::Not(::testing::Contains(name)));
}

}  // namespace
}  // namespace binade::train
