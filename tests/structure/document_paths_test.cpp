#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "structure/source_tree.h"

namespace binade::structure {
namespace {

using ::testing::ElementsAre;

// What stands in backquotes and looks like a path: names joined by slashes, perhaps with a *.
std::vector<std::string> paths_in(const std::string& text) {
  static const std::regex quoted("`([A-Za-z0-9_.*-]+/[A-Za-z0-9_.*/-]*)`");
  std::vector<std::string> paths;
  for (std::sregex_iterator match(text.begin(), text.end(), quoted), end; match != end; ++match) {
    paths.push_back((*match)[1]);
  }
  return paths;
}

// Whether a file matches a path in which * stands for a part of one name.
bool matches(const std::string& path) {
  if (path.find('*') == std::string::npos) return source_exists(path);
  const std::regex pattern(std::regex_replace(std::regex_replace(path, std::regex("\\."), "\\."),
                                              std::regex("\\*"), "[^/]*"));
  const std::string folder = path.substr(0, path.rfind('/', path.find('*')));
  for (const std::string& file : files_under(folder, {".h", ".cpp", ".cu", ".cuh"})) {
    if (std::regex_match(file, pattern)) return true;
  }
  return false;
}

TEST(DocumentPaths, SeesPathsAlone) {
  EXPECT_THAT(
      paths_in("`ops/norm/norm.cpp`, `x / y`, `ops.def`, ops/no.cpp, `tests/ops/`, `a/b_*.cpp`"),
      ElementsAre("ops/norm/norm.cpp", "tests/ops/", "a/b_*.cpp"));
}

// Paths are relative to the project or to src/binade/. Built files are not there in every checkout.
TEST(DocumentPaths, Exist) {
  for (const char* document : {"docs/architecture.md", "CONTRIBUTING.md"}) {
    const std::vector<std::string> paths = paths_in(read_source(document));
    EXPECT_GT(paths.size(), 5u) << document;
    for (const std::string& path : paths) {
      if (path.starts_with("build/") || path.starts_with("./")) continue;
      EXPECT_TRUE(matches(path) || matches("src/binade/" + path))
          << document << " names `" << path << "`, which does not exist";
    }
  }
}

}  // namespace
}  // namespace binade::structure
