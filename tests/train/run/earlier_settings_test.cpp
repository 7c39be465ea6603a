#include "binade/train/run/earlier_settings.h"

#include <gtest/gtest.h>

#include "io/temporary_folder.h"

namespace binade::train {
namespace {

std::vector<std::pair<int64_t, std::string>> found_in(const testing::TemporaryFolder& folder) {
  std::vector<std::pair<int64_t, std::string>> found;
  for (const EarlierSettings& one : read_earlier_settings(folder.path()))
    found.emplace_back(one.last, one.toml);
  return found;
}

using Found = std::vector<std::pair<int64_t, std::string>>;

TEST(EarlierSettings, AreReadInTheOrderOfSteps) {
  const testing::TemporaryFolder folder;
  EXPECT_EQ(found_in(folder), Found());
  note_earlier_settings(folder.path(), {9, "lr = 1"});
  note_earlier_settings(folder.path(), {100, "lr = 2"});
  for (const char* other : {"config-to-step-.toml", "config-to-step-07.toml", "config.toml",
                            "config-to-step--3.toml", "config-to-step-5.toml~"})
    folder.put(other, "none");
  EXPECT_EQ(found_in(folder), (Found{{9, "lr = 1"}, {100, "lr = 2"}}));
}

// Of steps that a run takes again, what it had before is no more.
TEST(EarlierSettings, ARunThatGoesBackForgetsLaterOnes) {
  const testing::TemporaryFolder folder;
  for (const int64_t last : {4, 8, 12})
    note_earlier_settings(folder.path(), {last, "of " + std::to_string(last)});
  note_earlier_settings(folder.path(), {8, "new"});
  EXPECT_EQ(found_in(folder), (Found{{4, "of 4"}, {8, "new"}}));
  note_earlier_settings(folder.path(), {8, ""});
  EXPECT_EQ(found_in(folder), (Found{{4, "of 4"}}));
  note_earlier_settings(folder.path(), {});
  EXPECT_EQ(found_in(folder), Found());
}

}  // namespace
}  // namespace binade::train
