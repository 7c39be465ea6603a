#include "binade/train/config/precision_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/base/error.h"
#include "io/temporary_folder.h"
#include "support/values.h"

namespace binade::train {
namespace {

TEST(PrecisionPlan, ReadsWhatItWrote) {
  const testing::TemporaryFolder folder;
  const PrecisionPlan plan{{{"blocks.0.mlp.up", 20, 0.75}, {"blocks.3.attention.out", 100, 1}}};
  write_precision_plan(plan, folder / "plan.json");
  EXPECT_EQ(read_precision_plan(folder / "plan.json"), plan);
  EXPECT_TRUE(plan.contains("blocks.0.mlp.up"));
  EXPECT_FALSE(plan.contains("blocks.0.mlp"));
}

TEST(PrecisionPlan, RefusesAnythingElseNamingTheFile) {
  const testing::TemporaryFolder folder;
  for (const char* text :
       {"", "{}", "{\"bf16\": 1}", "{\"bf16\": [{}]}", "{\"bf16\": [\"blocks.0\"]}",
        "{\"bf16\": [{\"module\": \"\", \"step\": 1, \"harm\": 1}]}",
        "{\"bf16\": [{\"module\": \"a\", \"step\": -1, \"harm\": 1}]}"}) {
    const auto path = folder.put("plan.json", text);
    EXPECT_THAT(test::error_of([&] { read_precision_plan(path); }),
                ::testing::HasSubstr("plan.json"))
        << text;
  }
}

}  // namespace
}  // namespace binade::train
