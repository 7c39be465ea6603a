#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>

#include "structure/source_tree.h"

// What ops read from their thread is a slot of the execution state (base/execution.h), which
// recompute, custom ops and threads carry whole. Here the ways around it fail.
namespace binade::structure {
namespace {

// The thread_local variables that are no settings of ops; the reason stands beside each.
const std::vector<std::string> resources_of_threads = {
    "amp/autocast.cpp",
    "backend/cpu/attention/attention.cpp",
    "backend/cpu/conv/conv.cpp",
    "backend/cpu/gemm/blocked.cpp",
    "backend/cuda/attention/cudnn.cpp",
    "backend/cuda/conv/cudnn.cpp",
    "backend/cuda/cudnn_plan.cpp",
    "backend/cuda/device.cpp",
    "backend/cuda/transfer.cpp",
    "base/execution.cpp",
    "base/execution.cpp",
    "base/parallel.cpp",
    "c/handles.cpp",
    "data/tokenizer_json/regex.cpp",
};

// Whether the use of a word is a way around, by the code that follows it.
using Rule = bool (*)(std::string_view rest);

bool any_use(std::string_view) { return true; }
// Not std::thread::id and the like.
bool names_a_type(std::string_view rest) { return !rest.starts_with("::"); }
bool does_not_carry(std::string_view rest) {
  return rest.substr(0, rest.find(';')).find("execution::carried") == std::string_view::npos;
}

size_t uses(std::string_view code, std::string_view word, Rule is_wrong) {
  size_t count = 0;
  for (size_t at = code.find(word); at != std::string_view::npos; at = code.find(word, at + 1)) {
    if (is_wrong(code.substr(at + word.size()))) ++count;
  }
  return count;
}

// The files that use `word` in a way that the rule finds wrong, once for each use.
std::vector<std::string> users(std::string_view word, Rule is_wrong) {
  std::vector<std::string> found;
  for (const std::string& file : files_under("src/binade", {".h", ".cpp", ".cu", ".cuh"})) {
    found.insert(found.end(), uses(without_comments(read_source(file)), word, is_wrong),
                 file.substr(std::string("src/binade/").size()));
  }
  return found;
}

TEST(ExecutionStateSources, ThreadLocalVariablesAreResourcesOfThreads) {
  EXPECT_THAT(users("thread_local", any_use),
              testing::UnorderedElementsAreArray(resources_of_threads))
      << "declare a setting of ops as an execution::Slot, which is carried wherever the others are";
}

TEST(ExecutionStateSources, ThreadsCarryTheState) {
  EXPECT_THAT(users("std::thread", names_a_type),
              testing::UnorderedElementsAre("base/execution.h", "base/execution.h",
                                            "base/parallel.cpp", "base/parallel.cpp"))
      << "start an execution::Thread; base/parallel.cpp only counts how many can be started";
  EXPECT_THAT(users("std::jthread", names_a_type), testing::IsEmpty());
  EXPECT_THAT(users("std::async", does_not_carry), testing::IsEmpty())
      << "give std::async an execution::carried function";
}

TEST(ExecutionStateSources, SeesWhatGoesAround) {
  const std::string code = without_comments(
      "thread_local int a;  // thread_local\nstd::thread t; std::thread::id id;\n"
      "std::async(f); std::async(policy,\n  execution::carried(f));");
  EXPECT_EQ(uses(code, "thread_local", any_use), 1u);
  EXPECT_EQ(uses(code, "std::thread", names_a_type), 1u);
  EXPECT_EQ(uses(code, "std::async", does_not_carry), 1u);
}

}  // namespace
}  // namespace binade::structure
