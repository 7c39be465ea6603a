#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "structure/source_tree.h"

// Code above the backend asks what a device can do (backend/capabilities.h), not which one it is.
namespace binade::structure {
namespace {

// What is about devices themselves: names, codes and places of them, messages and measurements.
const std::vector<std::string> about_devices = {
    "bench/gemm.cpp",       // cases that only GPUs have
    "c/handles.cpp",        // codes of the C interface
    "ops/dlpack.cpp",       // codes of DLPack
    "optim/optimizer.cpp",  // optimizers and options without kernels there
    "optim/optimizer.cpp",
    "torch/functions.h",                   // the index of a device's name
    "train/config/component_options.cpp",  // whether the machine has it, and the same optimizers
    "train/config/component_options.cpp",
    "train/config/warnings.cpp",       // options without effect
    "train/memory/device_memory.cpp",  // bytes of a GPU
    "train/memory/device_memory.cpp",
    "train/machine.cpp",  // names and peak rates
    "train/machine.cpp",
    "train/machine.cpp",
    "train/run/origin.cpp",  // the arithmetic of a run
};

bool is_above_backend(const std::string& path) {
  return component_index(component_of(path)) > component_index("backend");
}

size_t questions_in(const std::string& text) {
  const std::string code = without_comments(text);
  size_t count = 0;
  for (const char* question : {"is_cuda()", "is_cpu()"}) {
    for (size_t at = code.find(question); at != std::string::npos; at = code.find(question, at + 1))
      ++count;
  }
  return count;
}

TEST(DeviceQuestions, AboveTheBackendAreAboutDevicesThemselves) {
  std::vector<std::string> found;
  for (const std::string& file : files_under("src/binade", {".h", ".cpp"})) {
    const std::string path = file.substr(std::string("src/").size());
    if (!is_above_backend(path)) continue;
    found.insert(found.end(), questions_in(read_source(file)),
                 path.substr(std::string("binade/").size()));
  }
  EXPECT_THAT(found, testing::UnorderedElementsAreArray(about_devices))
      << "ask backend::capabilities(device), and give the question a name there";
}

TEST(DeviceQuestions, AreCounted) {
  EXPECT_EQ(questions_in("x.is_cuda() && !y.is_cpu();  // is_cpu()\nz.is_meta();"), 2u);
  EXPECT_TRUE(is_above_backend("binade/ops/norm/norm.cpp"));
  EXPECT_FALSE(is_above_backend("binade/tensor/memory.cpp"));
}

}  // namespace
}  // namespace binade::structure
