#include <gtest/gtest.h>

#include <set>
#include <string>

#include "structure/source_tree.h"
#include "support/pattern.h"

// The Python package has every op of ops.def. Its own tests ask the built package; this one also
// runs where the package cannot be built.
namespace binade::structure {
namespace {

std::set<std::string> matches(const std::string& text, const char* pattern) {
  std::set<std::string> found;
  for (const auto& match : test::Pattern(pattern).find_all(text)) found.insert(match[1]);
  return found;
}

TEST(PythonOps, EveryOpIsBound) {
  std::set<std::string> bound{"custom"};  // binade.autograd.Function
  for (const std::string& file : files_under("python/src", {".cpp"}))
    bound.merge(matches(read_source(file), "\"_?(\\w+)\""));
  const auto ops = matches(read_source("src/binade/autograd/ops.def"), "\nOP\\((\\w+)");
  EXPECT_GT(ops.size(), 150u);
  for (const std::string& op : ops) EXPECT_TRUE(bound.count(op) != 0) << op;
}

}  // namespace
}  // namespace binade::structure
