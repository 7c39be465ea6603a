#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "structure/source_tree.h"
#include "support/pattern.h"

namespace binade::structure {
namespace {

using test::Pattern;
using ::testing::ElementsAre;

// What stands in backquotes and looks like a path: names joined by slashes, perhaps with a *.
std::vector<std::string> paths_in(const std::string& text) {
  static const Pattern quoted("`([A-Za-z0-9_.*-]+/[A-Za-z0-9_.*/-]*)`");
  std::vector<std::string> paths;
  for (const Pattern::Match& match : quoted.find_all(text)) paths.push_back(match[1]);
  return paths;
}

// Whether a file matches a path in which * stands for a part of one name.
bool matches(const std::string& path) {
  if (path.find('*') == std::string::npos) return source_exists(path);
  const Pattern pattern(Pattern("\\*").replace(Pattern("\\.").replace(path, "\\."), "[^/]*"));
  const std::string folder = path.substr(0, path.rfind('/', path.find('*')));
  for (const std::string& file : files_under(folder, {".h", ".cpp", ".cu", ".cuh"})) {
    if (!pattern.match(file).empty()) return true;
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

// Every folder inside a component is described.
TEST(DocumentPaths, HaveEveryFolder) {
  const std::string architecture = read_source("docs/architecture.md");
  std::set<std::string> folders;
  for (const std::string& file : files_under("src/binade", {".h", ".cpp"}))
    folders.insert(std::filesystem::path(file).parent_path().lexically_relative("src/binade"));
  EXPECT_GT(folders.size(), 40u);
  for (const std::string& folder : folders) {
    if (folder.find('/') == std::string::npos || folder.ends_with("cpu") ||
        folder.ends_with("cuda"))
      continue;
    EXPECT_NE(architecture.find("`" + folder + "/`"), std::string::npos) << folder;
  }
}

}  // namespace
}  // namespace binade::structure
