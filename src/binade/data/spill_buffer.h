#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "binade/data/tokens.h"

namespace binade::data {

// Ids that are appended and then read: in memory, or beyond a bound in a file without a name, which
// the system keeps in memory as far as there is room and removes when the ids are released.
class SpillBuffer {
 public:
  // Little-endian ids of `width` bytes. The file is made in `folder`, which is created for it; all
  // stays in memory if that is empty.
  SpillBuffer(int width, std::filesystem::path folder, size_t most_in_memory = size_t{64} << 20);
  ~SpillBuffer();
  SpillBuffer(const SpillBuffer&) = delete;
  SpillBuffer& operator=(const SpillBuffer&) = delete;

  void add(uint32_t id);
  int64_t size() const { return count_; }
  bool is_in_file() const { return file_ >= 0; }
  // All ids; the buffer is empty then.
  Tokens finish();

 private:
  void flush();
  [[noreturn]] void refuse(const char* doing) const;

  int width_;
  std::filesystem::path folder_;
  size_t most_in_memory_;
  std::string bytes_;  // not in the file yet
  int file_ = -1;
  int64_t count_ = 0;
};

}  // namespace binade::data
