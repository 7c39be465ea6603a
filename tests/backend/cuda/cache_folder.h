#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <optional>
#include <string>

#include "binade/backend/gpu.h"

namespace binade::backend::cuda {

// A cache folder of its own for files of tuned choices.
class CacheFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const char* value = getenv("XDG_CACHE_HOME")) previous_ = value;
    folder_ = std::filesystem::path(testing::TempDir()) / "cache_folder_test";
    std::filesystem::remove_all(folder_);
    setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
  }
  void TearDown() override {
    std::filesystem::remove_all(folder_);
    if (previous_) {
      setenv("XDG_CACHE_HOME", previous_->c_str(), 1);
    } else {
      unsetenv("XDG_CACHE_HOME");
    }
  }

  static Gpu gpu() {
    Gpu gpu;
    gpu.name = "GPU 1/2";
    gpu.multiprocessors = 7;
    return gpu;
  }

  std::filesystem::path folder_;
  std::optional<std::string> previous_;
};

}  // namespace binade::backend::cuda
