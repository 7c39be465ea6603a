#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <utility>

#include "structure/source_tree.h"

namespace binade::structure {
namespace {

using ::testing::Pair;
using ::testing::UnorderedElementsAre;

// Name to definition. An alias is all of its line, as it may be defined twice alike.
using Names = std::map<std::string, std::string>;

// Constants, types and aliases in the anonymous namespaces of a file, each with the namespace
// around it.
Names anonymous_names(const std::string& text) {
  static const std::regex around(R"(^namespace ([\w:]+) \{)");
  static const std::regex constant(
      R"(^(?:constexpr|const|thread_local) [^(]*?\b(\w+)(?: =|\{|\[).*)");
  static const std::regex type(R"(^(?:struct|class|enum class|union) (\w+).*)");
  static const std::regex alias(R"(^using (\w+) =.*)");
  Names result;
  std::string outer;
  bool inside = false;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, around)) outer = match[1].str() + "::";
    if (line == "namespace {") inside = true;
    if (line == "}  // namespace") inside = false;
    if (!inside) continue;
    if (std::regex_match(line, match, constant) || std::regex_match(line, match, type))
      result[outer + match[1].str()] = "";
    if (std::regex_match(line, match, alias)) result[outer + match[1].str()] = line;
  }
  return result;
}

TEST(BatchNames, AreFoundInAnonymousNamespaces) {
  EXPECT_THAT(
      anonymous_names("namespace a::b {\n"
                      "constexpr int outside = 1;\n"
                      "namespace {\n"
                      "constexpr const char* caller = \"x\";\n"
                      "constexpr std::array<int, 2> pair{1, 2};\n"
                      "struct Case {\n"
                      "  int member = 1;\n"
                      "using Clock = std::chrono::steady_clock;\n"
                      "int function(int x) { return x; }\n"
                      "}  // namespace\n"
                      "struct Outside {\n"),
      UnorderedElementsAre(Pair("a::b::caller", ""), Pair("a::b::pair", ""), Pair("a::b::Case", ""),
                           Pair("a::b::Clock", "using Clock = std::chrono::steady_clock;")));
}

// A release build compiles several files of a folder as one, and which ones changes with every new
// file.
void expect_different_names(const std::string& folder) {
  std::map<std::string, std::pair<std::string, std::string>> first;
  for (const std::string& file : files_under(folder, {".cpp"})) {
    for (const auto& [name, definition] : anonymous_names(read_source(file))) {
      const auto [other, is_new] = first.emplace(name, std::pair(definition, file));
      EXPECT_TRUE(is_new || (!definition.empty() && definition == other->second.first))
          << file << " and " << other->second.second << " both define " << name
          << " in an anonymous namespace";
    }
  }
}

TEST(BatchNames, DifferWithinAComponent) {
  for (const std::string& component : components()) {
    if (component == "backend" || component == "formats") continue;  // compiled file by file
    expect_different_names("src/binade/" + component);
  }
}

TEST(BatchNames, DifferWithinAFolderOfTests) {
  for (const auto& entry : std::filesystem::directory_iterator(BINADE_SOURCE_DIR "/tests")) {
    if (entry.is_directory()) expect_different_names("tests/" + entry.path().filename().string());
  }
}

TEST(BatchNames, DifferInThePythonBindings) { expect_different_names("python/src"); }

}  // namespace
}  // namespace binade::structure
