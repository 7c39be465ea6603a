#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "structure/source_tree.h"

namespace binade::structure {
namespace {

using ::testing::IsEmpty;

// Every header that these include, directly or not, with one that includes it.
std::map<std::string, std::string> public_headers() {
  std::map<std::string, std::string> found;
  std::vector<std::string> queue{"binade/binade.h", "binade/generate.h", "binade/replay.h",
                                 "binade/torch.h", "binade/c.h"};
  while (!queue.empty()) {
    const std::string header = queue.back();
    queue.pop_back();
    for (const std::string& included : project_includes(read_source("src/" + header))) {
      if (found.emplace(included, header).second) queue.push_back(included);
    }
  }
  return found;
}

TEST(PublicHeaders, AreOfComponentsThatProgramsUse) {
  const std::map<std::string, std::string> headers = public_headers();
  ASSERT_GT(headers.size(), 10u) << "binade.h was not found";
  const std::set<std::string> components{"base", "formats", "tensor", "autograd", "amp",
                                         "ops",  "nn",      "optim",  "io",       "lab",
                                         "data", "ranks",   "torch"};
  // train holds the program's runs. Of it, programs generate texts.
  const std::set<std::string> generating{"binade/train/streams.h", "binade/train/generate.h",
                                         "binade/train/log_probs.h"};
  for (const auto& [header, from] : headers) {
    if (header == "binade/version.h" || header == "binade/binade.h" || generating.contains(header))
      continue;
    const std::filesystem::path folder = std::filesystem::path(header).parent_path();
    // Folders inside `backend` hold kernels.
    EXPECT_TRUE(components.contains(component_of(header)) || folder == "binade/backend")
        << from << " makes " << header << " public";
  }
}

TEST(PublicHeaders, AreMeantToBePublic) {
  ASSERT_NE(read_source("src/binade/ops/common.h").find("Not part of the public interface"),
            std::string::npos);
  for (const auto& [header, from] : public_headers()) {
    const std::string text = read_source("src/" + header);
    EXPECT_EQ(text.find("Not part of the public interface"), std::string::npos)
        << from << " makes " << header << " public, which says that it is not";
  }
}

TEST(PublicHeaders, HoldNoKernelTables) {
  for (const auto& [header, from] : public_headers()) {
    const std::string text = read_source("src/" + header);
    EXPECT_EQ(text.find("Kernels {"), std::string::npos)
        << from << " makes " << header << " public, which holds a kernel table";
  }
}

TEST(PublicHeaders, IncludeTheStandardLibraryAndNoOther) {
  for (const auto& [header, from] : public_headers()) {
    for (const std::string& included : system_includes(read_source("src/" + header))) {
      EXPECT_EQ(included.find_first_of("./"), std::string::npos)
          << header << " includes <" << included << ">, which users need not have";
    }
  }
}

}  // namespace
}  // namespace binade::structure
