// docs/from-libtorch.md lists every program of this folder, and shows them as they are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "io/temporary_folder.h"
#include "support/paths.h"
#include "support/pattern.h"

namespace {

namespace fs = std::filesystem;
using binade::test::Pattern;
using binade::testing::content_of;

const fs::path root = test::source_dir();

// File name to the names of its tests.
using Programs = std::map<std::string, std::set<std::string>>;

Programs matches(const std::string& text, const Pattern& pattern, const std::string& file = {}) {
  Programs result;
  for (const Pattern::Match& match : pattern.find_all(text))
    result[file.empty() ? match[2] : file].insert(match[1]);
  return result;
}

Programs in_the_sources() {
  static const Pattern test(R"(\nTEST\(FromLibTorch\w+, (\w+)\))");
  Programs result;
  for (const auto& entry : fs::directory_iterator(root / "tests/from_libtorch")) {
    if (entry.path().filename() != "list_test.cpp")
      result.merge(matches(content_of(entry.path()), test, entry.path().filename()));
  }
  return result;
}

std::string without_space(const std::string& text) {
  std::string result;
  std::copy_if(text.begin(), text.end(), std::back_inserter(result),
               [](char c) { return c != ' ' && c != '\n'; });
  return result;
}

TEST(FromLibTorchPage, ListsEveryProgram) {
  static const Pattern row(R"(\n\| `(\w+)` \|[^\n]*\(\.\./tests/from_libtorch/(\w+\.cpp)\))");
  const Programs listed = matches(content_of(root / "docs/from-libtorch.md"), row);
  EXPECT_EQ(listed, in_the_sources());
  size_t count = 0;
  for (const auto& [file, names] : listed) count += names.size();
  EXPECT_GE(count, 30u);
}

// The blocks of C++ are parts of the sources, but for white space.
TEST(FromLibTorchPage, ShowsTheProgramsAsTheyAre) {
  std::string sources;
  for (const auto& entry : fs::directory_iterator(root / "tests/from_libtorch"))
    sources += without_space(content_of(entry.path()));
  const std::string page = content_of(root / "docs/from-libtorch.md"), fence = "\n```cpp\n";
  int count = 0;
  for (size_t at = page.find(fence); at != std::string::npos; at = page.find(fence, at + 1)) {
    const size_t begin = at + fence.size();
    const std::string block = page.substr(begin, page.find("\n```", begin) - begin);
    EXPECT_NE(sources.find(without_space(block)), std::string::npos) << block;
    ++count;
  }
  EXPECT_GE(count, 5);
}

}  // namespace
