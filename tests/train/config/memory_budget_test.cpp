#include "binade/train/config/memory_budget.h"

#include <gtest/gtest.h>

namespace binade::train {
namespace {

TEST(MemoryBudget, SizesHaveUnits) {
  EXPECT_EQ(parse_bytes("16GB"), 16'000'000'000);
  EXPECT_EQ(parse_bytes("24GiB"), int64_t{24} << 30);
  EXPECT_EQ(parse_bytes("512 MB"), 512'000'000);
  EXPECT_EQ(parse_bytes("1.5 kib"), 1536);
  EXPECT_EQ(parse_bytes("8000000000 B"), 8'000'000'000);
  EXPECT_EQ(parse_bytes("1e3b"), 1000);
  for (const char* text :
       {"", "16", "GB", "-1GB", "0GB", "16 G", "nanGB", "1e30GB", "16GBs", "auto"})
    EXPECT_FALSE(parse_bytes(text)) << text;
}

TEST(MemoryBudget, TextsAreReadBack) {
  for (const char* text : {"auto", "least", "16GB", "24GiB", "3TiB", "1536B", "999MB", "12345B"}) {
    const auto budget = parse_budget(text);
    ASSERT_TRUE(budget) << text;
    EXPECT_EQ(parse_budget(to_text(*budget)), budget) << text;
  }
  EXPECT_EQ(to_text(*parse_budget("24 gib")), "24GiB");
  EXPECT_EQ(to_text(*parse_budget("16000 MB")), "16GB");
  EXPECT_EQ(to_text(*parse_budget("1.5KiB")), "1536B");
  EXPECT_FALSE(parse_budget("most"));
}

}  // namespace
}  // namespace binade::train
