#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "structure/source_tree.h"

namespace binade::structure {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(IncludeOrder, EveryArrowPointsLeft) {
  const auto files = files_under("src/binade", {".h", ".cpp", ".cu", ".cuh"});
  ASSERT_GT(files.size(), 10u) << "the sources were not found";
  for (const std::string& file : files) {
    const std::string path = file.substr(std::string("src/").size());
    for (const std::string& wrong : include_violations(path, read_source(file))) {
      ADD_FAILURE() << wrong;
    }
  }
}

TEST(IncludeOrder, SeesAnArrowThatPointsRight) {
  EXPECT_THAT(
      include_violations("binade/tensor/tensor.cpp", "#include \"binade/ops/norm/norm.h\"\n"),
      ElementsAre(HasSubstr("the arrow points right")));
  EXPECT_THAT(include_violations("binade/base/error.h", "  #  include <binade/formats/format.h>\n"),
              ElementsAre(HasSubstr("the arrow points right")));
}

TEST(IncludeOrder, AcceptsTheSameComponentAndThoseToTheLeft) {
  EXPECT_THAT(include_violations("binade/ops/norm/norm.cpp",
                                 "#include <vector>\n"
                                 "#include <fmt/core.h>\n"
                                 "#include \"hwy/highway.h\"\n"
                                 "#include \"binade/ops/norm/norm.h\"\n"
                                 "#include \"binade/backend/norm.h\"\n"
                                 "// #include \"binade/cli/commands.h\"\n"),
              IsEmpty());
}

TEST(IncludeOrder, RefusesOtherWaysAroundTheOrder) {
  EXPECT_THAT(include_violations("binade/ops/norm/norm.cpp", "#include \"norm.h\"\n"),
              ElementsAre(HasSubstr("binade/<component>/<stem>.h")));
  EXPECT_THAT(include_violations("binade/ops/norm/norm.cpp", "#include \"binade/binade.h\"\n"),
              ElementsAre(HasSubstr("umbrella")));
  EXPECT_THAT(include_violations("binade/ops/norm/norm.cpp", "#include \"binade/attic/norm.h\"\n"),
              ElementsAre(HasSubstr("not a component")));
  EXPECT_THAT(include_violations("binade/attic/norm.cpp", ""),
              ElementsAre(HasSubstr("not a component")));
  EXPECT_THAT(include_violations("binade/nn/norm.cpp", "#include \"binade/backend/cuda/norm.h\"\n"),
              ElementsAre(HasSubstr("private to backend")));
}

TEST(IncludeOrder, EveryComponentMayIncludeTheVersion) {
  EXPECT_THAT(include_violations("binade/base/version.cpp", "#include \"binade/version.h\"\n"),
              IsEmpty());
}

TEST(IncludeOrder, KnowsTheOrderOfFoldersInsideTrain) {
  const auto found = [](const char* path, const char* target) {
    return include_violations(path, "#include \"" + std::string(target) + "\"\n");
  };
  EXPECT_THAT(found("binade/train/config/config.cpp", "binade/train/init_from.h"),
              ElementsAre(HasSubstr("the bottom of train")));
  EXPECT_THAT(found("binade/train/config/config.cpp", "binade/train/config/presets.h"), IsEmpty());
  EXPECT_THAT(found("binade/train/run/metrics.cpp", "binade/train/report/chart.h"),
              ElementsAre(HasSubstr("only the end of a run")));
  EXPECT_THAT(found("binade/train/run/ending.cpp", "binade/train/report/report.h"), IsEmpty());
  EXPECT_THAT(found("binade/train/report/report.cpp", "binade/train/report/chart.h"), IsEmpty());
  EXPECT_THAT(found("binade/cli/report.cpp", "binade/train/report/report.h"), IsEmpty());
}

TEST(IncludeOrder, KnowsTheOrderOfFoldersInsideBackend) {
  const auto found = [](const char* path, const char* target) {
    return include_violations(path, "#include \"" + std::string(target) + "\"\n");
  };
  EXPECT_THAT(found("binade/backend/cpu/rows/dense_rows.cpp", "binade/backend/cpu/gemm/pack.h"),
              ElementsAre(HasSubstr("rows is the bottom")));
  EXPECT_THAT(found("binade/backend/cuda/common/mma.cuh", "binade/backend/cuda/norm/norm.cuh"),
              ElementsAre(HasSubstr("common is the bottom")));
  EXPECT_THAT(found("binade/backend/cpu/norm/norm.cpp", "binade/backend/cuda/norm/norm.cuh"),
              ElementsAre(HasSubstr("does not depend on CUDA")));
  EXPECT_THAT(found("binade/backend/cuda/index/index.cu", "binade/backend/cpu/rows/strided.h"),
              IsEmpty());
  EXPECT_THAT(found("binade/backend/cpu/norm/norm.cpp", "binade/backend/cpu/rows/dense_rows.h"),
              IsEmpty());
}

TEST(IncludeOrder, TheUmbrellaMayIncludeEveryComponent) {
  EXPECT_THAT(include_violations("binade/binade.h", "#include \"binade/optim/adamw.h\"\n"),
              IsEmpty());
}

}  // namespace
}  // namespace binade::structure
