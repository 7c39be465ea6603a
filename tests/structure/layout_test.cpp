#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "structure/source_tree.h"

namespace binade::structure {
namespace {

std::string stem_of(const std::string& path) { return std::filesystem::path(path).stem().string(); }

// True when a header stands in one of the folders for the stem, or for a beginning of it that ends
// before an underscore: kernel_neon.cpp belongs to kernel.h.
bool has_header(std::string stem, const std::vector<std::string>& folders) {
  while (!stem.empty()) {
    for (const std::string& folder : folders) {
      for (const char* kind : {".h", ".cuh"}) {
        if (source_exists(folder + "/" + stem + kind)) return true;
      }
    }
    const size_t cut = stem.rfind('_');
    stem.resize(cut == std::string::npos ? 0 : cut);
  }
  return false;
}

TEST(Layout, EveryKernelFileHasAHeader) {
  const std::string backend = "src/binade/backend";
  for (const std::string& device : {backend + "/cpu", backend + "/cuda"}) {
    for (const std::string& file : files_under(device, {".cpp", ".cu"})) {
      // A file that fills a kernel table has that table's header in backend/; a helper has a header
      // beside it, or belongs to the family its folder is named after.
      const std::string folder = std::filesystem::path(file).parent_path().string();
      EXPECT_TRUE(has_header(stem_of(file), {backend, folder}) ||
                  has_header(stem_of(folder), {backend, folder}))
          << file << ": no header in " << backend << " or " << folder << " declares it";
    }
  }
}

}  // namespace
}  // namespace binade::structure
