#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <utility>

#include "structure/source_tree.h"
#include "support/paths.h"
#include "support/pattern.h"

namespace binade::structure {
namespace {

using test::Pattern;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

// Name to definition. An alias is all of its line, as it may be defined twice alike.
using Names = std::map<std::string, std::string>;

// The types of a function's parameters: "const Tensor& x, int n = 1" gives "const Tensor&, int".
std::string types_of(const std::string& parameters) {
  static const Pattern value(" = [^,]*");
  static const Pattern name(R"(([\w>*&\]]) ?\b\w+(?=,|$))");
  return name.replace(value.replace(parameters, ""), "$1");
}

// The line of a declaration with those after it, up to the end of a function's parameters.
std::string up_to_parenthesis(const std::string& line, std::istringstream& lines) {
  std::string all = line;
  const auto is_open = [&] {
    return std::count(all.begin(), all.end(), '(') > std::count(all.begin(), all.end(), ')');
  };
  for (std::string next; is_open() && std::getline(lines, next);)
    all += ' ' + next.substr(std::min(next.find_first_not_of(' '), next.size()));
  return all;
}

// Constants, types, aliases and functions in the anonymous namespaces of a file, each with the
// namespace around it; a function with the types of its parameters.
Names anonymous_names(const std::string& text) {
  static const Pattern around(R"(^namespace ([\w:]+) \{)");
  static const Pattern constant(R"(^(?:constexpr|const|thread_local) [^(]*?\b(\w+)(?: =|\{|\[).*)");
  static const Pattern type(R"(^(?:struct|class|enum class|union) (\w+).*)");
  static const Pattern alias(R"(^using (\w+) =.*)");
  static const Pattern function(
      R"(^(?!return|else|using|TEST|INSTANTIATE)[\w:<>,*& \[\]]*[\w>*&] [*&]*(\w+)\(([^()]*)\)(?: const)?(?:;| \{.*))");
  Names result;
  std::string outer, templated;
  bool inside = false;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (const auto match = around.match(line); !match.empty()) outer = match[1] + "::";
    if (line == "namespace {") inside = true;
    if (line == "}  // namespace") inside = false;
    if (!inside || line.empty() || line[0] == ' ') continue;
    for (const Pattern* defined : {&constant, &type}) {
      if (const auto match = defined->match(line); !match.empty()) result[outer + match[1]] = "";
    }
    if (const auto match = alias.match(line); !match.empty()) result[outer + match[1]] = line;
    // Templates differ in more than their parameters: overloads are told apart by constraints.
    const bool is_template = line.starts_with("template") || line.starts_with("requires");
    if (const auto match = function.match(up_to_parenthesis(line, lines));
        !match.empty() && templated.empty() && !is_template)
      result[outer + match[1] + "(" + types_of(match[2]) + ")"] = "";
    templated = is_template ? line : "";
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
                      "};\n"
                      "using Clock = std::chrono::steady_clock;\n"
                      "int function(int x) { return x; }\n"
                      "const Tensor& other(const Tensor& x,\n"
                      "                    double* y = nullptr) {\n"
                      "  return call(x);\n"
                      "}\n"
                      "template <class T>\n"
                      "int function(T x) {\n"
                      "}  // namespace\n"
                      "struct Outside {\n"),
      UnorderedElementsAre(Pair("a::b::caller", ""), Pair("a::b::pair", ""), Pair("a::b::Case", ""),
                           Pair("a::b::Clock", "using Clock = std::chrono::steady_clock;"),
                           Pair("a::b::function(int)", ""),
                           Pair("a::b::other(const Tensor&, double*)", "")));
}

// The files that CMakeLists.txt leaves out of batches.
bool is_compiled_alone(const std::string& file, const std::string& text) {
  return file.find("/cuda/") != std::string::npos ||
         file.find("/gemm/kernel_") != std::string::npos ||
         text.find("foreach_target") != std::string::npos ||
         text.find("pragma GCC target") != std::string::npos;
}

// A release build compiles several files of a folder as one, and which ones changes with every new
// file.
void expect_different_names(const std::string& folder) {
  std::map<std::string, std::pair<std::string, std::string>> first;
  for (const std::string& file : files_under(folder, {".cpp"})) {
    const std::string text = read_source(file);
    if (is_compiled_alone(file, text)) continue;
    for (const auto& [name, definition] : anonymous_names(text)) {
      const auto [other, is_new] = first.emplace(name, std::pair(definition, file));
      EXPECT_TRUE(is_new || (!definition.empty() && definition == other->second.first))
          << file << " and " << other->second.second << " both define " << name
          << " in an anonymous namespace";
    }
  }
}

TEST(BatchNames, DifferWithinAComponent) {
  for (const std::string& component : components())
    expect_different_names("src/binade/" + component);
}

TEST(BatchNames, DifferWithinAFolderOfTests) {
  for (const auto& entry : std::filesystem::directory_iterator(test::source_dir() / "tests")) {
    if (entry.is_directory()) expect_different_names("tests/" + entry.path().filename().string());
  }
}

TEST(BatchNames, DifferInThePythonBindings) { expect_different_names("python/src"); }

}  // namespace
}  // namespace binade::structure
