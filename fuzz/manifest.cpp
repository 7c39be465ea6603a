#include <filesystem>
#include <fstream>

#include "binade/base/error.h"
#include "binade/train/checkpoint.h"
#include "fuzz/memory_file.h"
#include "fuzz/mutate_json.h"

namespace {

// A checkpoint whose manifest is the input; seeds/manifest/good.json is the right one.
class Folder {
 public:
  Folder() {
    std::string name =
        (std::filesystem::temp_directory_path() / "binade-fuzz-manifest-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
    for (const char* file : {"config.json", "model.safetensors", "trainer.safetensors"})
      std::ofstream(path_ / file) << file;
    std::filesystem::create_symlink(manifest.path(), path_ / "manifest.json");
  }
  ~Folder() { std::filesystem::remove_all(path_); }

  const std::filesystem::path& path() const { return path_; }
  binade::fuzz::MemoryFile manifest;

 private:
  std::filesystem::path path_;
};

}  // namespace

// A manifest is refused, or it is one of the files that are there.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Folder folder;
  folder.manifest.holding(data, size);
  try {
    binade::train::verify_checkpoint(folder.path());
  } catch (const binade::Error&) {
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  return binade::fuzz::mutate_json(
      data, size, max_size, seed,
      {"format", "version", "step", "files", "bytes", "xxh3_128", "config.json",
       "model.safetensors", "trainer.safetensors", "binade-checkpoint", "run", "data"});
}
