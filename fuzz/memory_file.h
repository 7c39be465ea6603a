#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace binade::fuzz {

// A file without a disk, whose content changes with every input.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(::memfd_create("input", 0)) {}

  // The file's path, with `size` bytes of `data` in it.
  std::string holding(const uint8_t* data, size_t size) const {
    if (::ftruncate(descriptor_, 0) != 0 ||
        ::pwrite(descriptor_, data, size, 0) != static_cast<ssize_t>(size))
      std::abort();
    return path();
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

}  // namespace binade::fuzz
