#ifdef BINADE_CUDA

#include "binade/backend/cuda/choice_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "backend/cuda/cache_folder.h"

namespace binade::backend::cuda {
namespace {

namespace fs = std::filesystem;

using ChoiceFileTest = CacheFolderTest;

TEST_F(ChoiceFileTest, KeepsChoicesForLaterProcesses) {
  ChoiceFile first("library", 3, gpu());
  ChoiceFile second("library", 3, gpu());
  first.add("1 2 3", "engine a");
  EXPECT_EQ(second.find("1 2 3"), std::nullopt);
  EXPECT_EQ(second.find_again("1 2 3"), "engine a");
  second.add("4 5", "engine b");
  const ChoiceFile later("library", 3, gpu());
  EXPECT_EQ(later.find("1 2 3"), "engine a");
  EXPECT_EQ(later.find("4 5"), "engine b");
  EXPECT_EQ(later.find("1 2"), std::nullopt);
  EXPECT_EQ(ChoiceFile("library", 4, gpu()).find("1 2 3"), std::nullopt) << "another version";
}

TEST_F(ChoiceFileTest, IgnoresFilesOfAnotherKind) {
  ChoiceFile("library", 3, gpu()).add("1", "a");
  for (const auto& entry : fs::directory_iterator(folder_ / "binade")) {
    std::ofstream(entry.path()) << "something else\n1|b\n";
  }
  EXPECT_EQ(ChoiceFile("library", 3, gpu()).find("1"), std::nullopt);
}

}  // namespace
}  // namespace binade::backend::cuda

#endif  // BINADE_CUDA
