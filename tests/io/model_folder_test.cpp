#include "binade/io/model_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/io/manifest.h"
#include "io/temporary_folder.h"
#include "support/values.h"

namespace binade::io {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ModelFolder, IsTheFolderItselfOrTheNewestCheckpointOfARun) {
  const binade::testing::TemporaryFolder folder;
  const auto make = [&](const std::string& name, const char* file) {
    std::filesystem::create_directories(folder / name);
    folder.put(name + "/" + file, "{}");
  };
  make("model", "config.json");
  EXPECT_EQ(model_folder(folder / "model", "test"), folder / "model");
  for (const int step : {9, 10}) {
    const std::string name = "run/checkpoints/" + checkpoint_name(step);
    make(name, "config.json");
    make(name, "model.safetensors");
    folder.put(name + "/manifest.json",
               manifest_text(folder / name, {.step = step, .facts = {}, .files = {}}, "test"));
  }
  make("run/checkpoints/step-11", "half_written");
  make("run/checkpoints/.step-12.tmp", "manifest.json");
  make("run/checkpoints/step-13x", "manifest.json");
  EXPECT_EQ(model_folder(folder / "run", "test"), folder / "run/checkpoints/step-10");
  EXPECT_EQ(list_checkpoints(folder / "run/checkpoints").size(), 2u);
  EXPECT_EQ(checkpoint_name(10), "step-10");
}

TEST(ModelFolder, StepsAreNumbersOfSixtyFourBits) {
  const binade::testing::TemporaryFolder folder;
  for (const char* name : {"step-20", "step-3", "step-", "step-x", "step-4x", "step--5", "astep-6",
                           "step-99999999999999999999", "step-0"})
    std::filesystem::create_directory(folder / name);
  std::vector<int64_t> steps;
  for (const Checkpoint& one : list_step_folders(folder.path())) steps.push_back(one.step);
  EXPECT_THAT(steps, ::testing::ElementsAre(0, 3, 20));
}

TEST(ModelFolder, FailsInTheNameOfTheCaller) {
  const binade::testing::TemporaryFolder folder;
  EXPECT_THAT(test::error_of([&] { model_folder(folder.path(), "eval"); }),
              AllOf(HasSubstr("eval"), HasSubstr("none of them")));
  EXPECT_THAT(test::error_of([&] { model_folder(folder / "absent", "eval"); }),
              HasSubstr("nothing there"));
}

}  // namespace
}  // namespace binade::io
