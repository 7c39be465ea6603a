#include "binade/train/config/precision_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/amp/recipe/text.h"
#include "binade/base/error.h"
#include "io/temporary_folder.h"
#include "support/values.h"

namespace binade::train {
namespace {

TEST(PrecisionPlan, ReadsWhatItWrote) {
  const testing::TemporaryFolder folder;
  const PrecisionPlan plan{
      {{"blocks.0.mlp.up", 20, 0.75},
       {"blocks.3.attention.out", 100, 1},
       {"blocks.1.mlp.up", 110, 0.5, amp::recipes::block(), false, false, false},
       {"blocks.2.mlp.up", 120, 0.5, {}, false, true, false},
       {"head", 130, 0.5, amp::parse_recipe("row, eps = 1e-6, head = true"), false, true, false}}};
  write_precision_plan(plan, folder / "plan.json");
  EXPECT_EQ(read_precision_plan(folder / "plan.json"), plan);
  EXPECT_EQ(plan.find("blocks.0.mlp.up"), &plan.layers[0]);
  EXPECT_EQ(plan.find("blocks.0.mlp"), nullptr);
  const amp::Recipe base =
      amp::parse_recipe("delayed, history = 4, matmuls = [\"forward\", \"dgrad\"]");
  EXPECT_FALSE(plan.layers[0].recipe(base).matmuls.any());
  EXPECT_EQ(plan.layers[2].recipe(base),
            amp::parse_recipe("block, matmuls = [\"forward\", \"dgrad\"]"));
  EXPECT_EQ(plan.layers[3].recipe(base),
            amp::parse_recipe("delayed, history = 4, matmuls = [\"forward\"]"));
  EXPECT_EQ(plan.layers[4].recipe(base).tensors[amp::Role::input],
            plan.layers[4].moved_to->tensors[amp::Role::input]);
}

// A later change of a layer replaces an earlier one; a demotion ends it.
TEST(PrecisionPlan, HasTheLatestChangeOfALayer) {
  PrecisionPlan plan{{{"a", 4, 0.5, amp::recipes::block(), false, false, false}, {"b", 4, 1}}};
  plan.layers.push_back({"a", 8, 0.5});
  EXPECT_EQ(plan.find("a"), &plan.layers[2]);
  EXPECT_EQ(plan.current().size(), 2u);
  plan.layers.push_back({"a", 20, 0.01, {}, false, false, false});
  EXPECT_EQ(plan.find("a"), nullptr);
  ASSERT_EQ(plan.current().size(), 1u);
  EXPECT_EQ(plan.current()[0].module, "b");
}

// By hand: matmuls in bf16 need no list if they are all, and another recipe is for all of them.
// Earlier versions named the recipe by its scaling.
TEST(PrecisionPlan, KnowsWhatAnEntryLeavesOut) {
  const testing::TemporaryFolder folder;
  const auto path =
      folder.put("plan.json",
                 "{\"layers\": [{\"module\": \"a\", \"step\": 0, \"harm\": 1},"
                 "{\"module\": \"b\", \"step\": 0, \"harm\": 1, \"recipe\": \"mx, eps = 0\"},"
                 "{\"module\": \"c\", \"step\": 0, \"harm\": 1, \"fp8_scaling\": \"row\"}]}");
  EXPECT_EQ(read_precision_plan(path),
            (PrecisionPlan{{{"a", 0, 1},
                            {"b", 0, 1, amp::recipes::mx(), false, false, false},
                            {"c", 0, 1, amp::recipes::row(), false, false, false}}}));
}

TEST(PrecisionPlan, RefusesAnythingElseNamingTheFile) {
  const testing::TemporaryFolder folder;
  for (const char* text :
       {"", "{}", "{\"layers\": 1}", "{\"layers\": [{}]}", "{\"layers\": [\"blocks.0\"]}",
        "{\"layers\": [{\"module\": \"\", \"step\": 1, \"harm\": 1}]}",
        "{\"layers\": [{\"module\": \"a\", \"step\": -1, \"harm\": 1}]}",
        "{\"layers\": [{\"module\": \"a\", \"step\": 1, \"harm\": 1, \"bf16\": [\"agrad\"]}]}"}) {
    const auto path = folder.put("plan.json", text);
    EXPECT_THAT(test::error_of([&] { read_precision_plan(path); }),
                ::testing::HasSubstr("plan.json"))
        << text;
  }
}

}  // namespace
}  // namespace binade::train
