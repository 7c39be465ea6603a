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
  EXPECT_THAT(include_violations("binade/tensor/tensor.cpp", "#include \"binade/ops/norm.h\"\n"),
              ElementsAre(HasSubstr("the arrow points right")));
  EXPECT_THAT(include_violations("binade/base/error.h", "  #  include <binade/formats/format.h>\n"),
              ElementsAre(HasSubstr("the arrow points right")));
}

TEST(IncludeOrder, AcceptsTheSameRoomAndRoomsToTheLeft) {
  EXPECT_THAT(include_violations("binade/ops/norm.cpp",
                                 "#include <vector>\n"
                                 "#include <fmt/core.h>\n"
                                 "#include \"hwy/highway.h\"\n"
                                 "#include \"binade/ops/norm.h\"\n"
                                 "#include \"binade/backend/norm.h\"\n"
                                 "// #include \"binade/cli/commands.h\"\n"),
              IsEmpty());
}

TEST(IncludeOrder, RefusesOtherRoadsAroundTheOrder) {
  EXPECT_THAT(include_violations("binade/ops/norm.cpp", "#include \"norm.h\"\n"),
              ElementsAre(HasSubstr("binade/<room>/<stem>.h")));
  EXPECT_THAT(include_violations("binade/ops/norm.cpp", "#include \"binade/binade.h\"\n"),
              ElementsAre(HasSubstr("umbrella")));
  EXPECT_THAT(include_violations("binade/ops/norm.cpp", "#include \"binade/attic/norm.h\"\n"),
              ElementsAre(HasSubstr("not a room")));
  EXPECT_THAT(include_violations("binade/attic/norm.cpp", ""),
              ElementsAre(HasSubstr("not a room")));
  EXPECT_THAT(include_violations("binade/nn/norm.cpp", "#include \"binade/backend/cuda/norm.h\"\n"),
              ElementsAre(HasSubstr("private to backend")));
}

TEST(IncludeOrder, EveryRoomMayIncludeTheVersion) {
  EXPECT_THAT(include_violations("binade/base/version.cpp", "#include \"binade/version.h\"\n"),
              IsEmpty());
}

TEST(IncludeOrder, TheUmbrellaMayIncludeEveryRoom) {
  EXPECT_THAT(include_violations("binade/binade.h", "#include \"binade/optim/adamw.h\"\n"),
              IsEmpty());
}

}  // namespace
}  // namespace binade::structure
