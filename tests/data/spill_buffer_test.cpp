#include "binade/data/spill_buffer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/temporary_folder.h"
#include "support/error_of.h"

namespace binade::data {
namespace {

// Ids of both widths whose bytes all differ.
TEST(SpillBuffer, GivesTheIdsBackFromMemoryAndFromAFile) {
  const testing::TemporaryFolder folder;
  for (const int width : {1, 2, 4}) {
    for (const bool in_file : {false, true}) {
      const std::filesystem::path below = in_file ? folder / "new/folder" : "";
      SpillBuffer buffer(width, below, 100);
      const uint32_t mask = width == 4 ? 0x7fffffff : (1U << (8 * width)) - 1;
      const auto id = [mask](int64_t i) { return static_cast<uint32_t>(i * 40503077 + 5) & mask; };
      for (int64_t i = 0; i < 1013; ++i) buffer.add(id(i));
      EXPECT_EQ(buffer.size(), 1013);
      EXPECT_EQ(buffer.is_in_file(), in_file);
      const Tokens all = buffer.finish();
      ASSERT_EQ(all.size(), 1013);
      for (int64_t i = 0; i < 1013; ++i) ASSERT_EQ(all[i], id(i)) << width << " " << i;
      EXPECT_EQ(all.slice(700, 1013)[312], id(1012));
    }
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder / "new/folder"));
}

TEST(SpillBuffer, NamesTheFolderThatTakesNoFile) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path file = folder.put("a-file", "x");
  SpillBuffer buffer(4, file, 10);
  EXPECT_THAT(
      test::error_of([&] {
        for (uint32_t i = 0; i < 9; ++i) buffer.add(i);
      }),
      ::testing::HasSubstr("data: " + file.string() + ": expected a temporary file to create"));
}

}  // namespace
}  // namespace binade::data
