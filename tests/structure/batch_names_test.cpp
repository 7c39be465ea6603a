#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "structure/source_tree.h"

namespace binade::structure {
namespace {

using Names = std::set<std::string>;

// Constants and types defined in the anonymous namespace of a file.
Names anonymous_names(const std::string& text) {
  static const std::regex constant(
      R"(^(?:constexpr|const|thread_local) [^(]*?\b(\w+)(?: =|\{|\[).*)");
  static const std::regex type(R"(^(?:struct|class|enum class|union) (\w+).*)");
  static const std::regex alias(R"(^using (\w+) =.*)");
  Names result;
  bool inside = false;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line == "namespace {") inside = true;
    if (line == "}  // namespace") inside = false;
    std::smatch match;
    if (inside && (std::regex_match(line, match, constant) || std::regex_match(line, match, type) ||
                   std::regex_match(line, match, alias)))
      result.insert(match[1]);
  }
  return result;
}

TEST(BatchNames, AreFoundInAnonymousNamespaces) {
  EXPECT_THAT(anonymous_names("constexpr int outside = 1;\n"
                              "namespace {\n"
                              "constexpr const char* caller = \"x\";\n"
                              "constexpr std::array<int, 2> pair{1, 2};\n"
                              "struct Case {\n"
                              "  int member = 1;\n"
                              "using Clock = std::chrono::steady_clock;\n"
                              "int function(int x) { return x; }\n"
                              "}  // namespace\n"
                              "struct Outside {\n"),
              testing::UnorderedElementsAre("caller", "pair", "Case", "Clock"));
}

// A release build compiles several files of a component as one, and which ones changes with every
// new file.
TEST(BatchNames, DifferWithinAComponent) {
  for (const std::string& component : components()) {
    if (component == "backend" || component == "formats") continue;  // compiled file by file
    std::map<std::string, std::string> first;
    for (const std::string& file : files_under("src/binade/" + component, {".cpp"})) {
      for (const std::string& name : anonymous_names(read_source(file))) {
        const auto [other, is_new] = first.emplace(name, file);
        EXPECT_TRUE(is_new) << file << " and " << other->second << " both define " << name
                            << " in an anonymous namespace";
      }
    }
  }
}

}  // namespace
}  // namespace binade::structure
