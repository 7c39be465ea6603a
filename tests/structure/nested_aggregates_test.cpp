#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "structure/source_tree.h"
#include "support/pattern.h"

// GCC 12 destroys the members of a nested braced aggregate twice if a later initializer of the
// outer one throws: Outer{.inner = {}, .value = throws()}, also if .inner is left out and inner's
// default is {} or nothing. Only members that own memory crash, so a struct with a default that
// allocates, such as a list of texts, must be nested as T().
namespace binade::structure {
namespace {

using test::Pattern;

struct Member {
  std::string owner, type, initializer;
};

// Members of the structs of a file, without those of structs that have a constructor.
std::vector<Member> members_of(const std::string& text) {
  static const Pattern begin(R"(^( *)struct (\w+)[^;]*\{$)");
  static const Pattern member(R"(^ +((?:[\w:]+<.*>|[\w:]+)) (\w+)((?: = [^;]*|\{[^;]*\})?);.*$)");
  std::vector<Member> result;
  std::vector<std::pair<std::string, std::string>> open;  // the indentation and name of each struct
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (const auto match = begin.match(line); !match.empty()) {
      open.emplace_back(match[1], match[2]);
    } else if (!open.empty() && line == open.back().first + "};") {
      open.pop_back();
    } else if (!open.empty() &&
               line.starts_with(open.back().first + "  " + open.back().second + "(")) {
      std::erase_if(result, [&](const Member& one) { return one.owner == open.back().second; });
    } else if (!open.empty() && line.starts_with(open.back().first + "  ") &&
               line[open.back().first.size() + 2] != ' ') {
      if (const auto found = member.match(line); !found.empty())
        result.push_back({open.back().second, found[1], found[3]});
    }
  }
  return result;
}

std::string without_namespace(const std::string& type) {
  const size_t colons = type.rfind("::");
  return colons == std::string::npos ? type : type.substr(colons + 2);
}

bool is_container(const std::string& type) {
  return type.starts_with("std::vector<") || type.starts_with("std::map<") ||
         type.starts_with("std::unordered_map<") || type.starts_with("std::set<");
}

// Structs with a default member initializer that allocates, and those with such a struct in them.
std::set<std::string> allocating_structs(const std::vector<std::string>& texts) {
  std::vector<Member> members;
  for (const std::string& text : texts) {
    for (Member& member : members_of(text)) members.push_back(std::move(member));
  }
  std::set<std::string> result;
  for (size_t known = 1; known != result.size();) {
    known = result.size();
    for (const Member& member : members) {
      const bool is_empty = member.initializer.empty() || member.initializer.starts_with(" = {}");
      if ((is_container(member.type) && !is_empty) ||
          result.contains(without_namespace(member.type)))
        result.insert(member.owner);
    }
  }
  return result;
}

std::vector<std::string> nested_in_braces(const std::string& text,
                                          const std::set<std::string>& allocating) {
  std::vector<std::string> result;
  for (const Member& member : members_of(text)) {
    if (allocating.contains(without_namespace(member.type)) &&
        !member.initializer.ends_with(member.type + "()"))
      result.push_back(member.owner + ": " + member.type + member.initializer);
  }
  return result;
}

TEST(NestedAggregates, AreFound) {
  const std::string inner = "struct Inner {\n  std::vector<int> list = {1, 2};\n};\n";
  const std::set<std::string> allocating = allocating_structs({inner,
                                                               "struct Other {\n"
                                                               "  int x = 0;\n"
                                                               "};\n"});
  EXPECT_EQ(allocating, std::set<std::string>{"Inner"});
  EXPECT_TRUE(allocating_structs({"struct Outer {\n  Inner inner = Inner();\n};\n", inner})
                  .contains("Outer"));
  const auto found = [&](const std::string& member) {
    return nested_in_braces("struct Outer {\n  " + member + "\n};\n", allocating).size();
  };
  EXPECT_EQ(found("Inner inner = {};"), 1u);
  EXPECT_EQ(found("ns::Inner inner;  // comment"), 1u);
  EXPECT_EQ(found("Inner inner{};"), 1u);
  EXPECT_EQ(found("Inner inner = Inner();"), 0u);
  EXPECT_EQ(found("Other other = {};"), 0u);
}

TEST(NestedAggregates, WithDefaultsThatAllocateAreNestedAsValues) {
  std::vector<std::string> texts;
  for (const std::string& path : files_under("src/binade", {".h", ".cpp"}))
    texts.push_back(read_source(path));
  const std::set<std::string> allocating = allocating_structs(texts);
  EXPECT_TRUE(allocating.contains("Config"));
  for (const std::string& text : texts) {
    for (const std::string& violation : nested_in_braces(text, allocating))
      ADD_FAILURE() << violation << ": initialize the member with T() instead of {}";
  }
}

}  // namespace
}  // namespace binade::structure
