#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

namespace binade::data {

// Reads a file front to back: as it is or, for the extensions .gz and .zst, unpacked.
class Unpacker {
 public:
  virtual ~Unpacker() = default;

  // Writes up to `count` bytes to `out` and returns how many; 0 at the end. Fails for damaged and
  // truncated files, and beyond 64 MiB for one that unpacks to more than 200 times its size.
  virtual size_t read(char* out, size_t count) = 0;
  // Bytes of the file read so far, and of all of it.
  virtual int64_t consumed() const = 0;
  virtual int64_t size() const = 0;
};

std::unique_ptr<Unpacker> open_unpacked(const std::filesystem::path& path);

// Whether open_unpacked() unpacks a file of this name.
bool is_packed(const std::filesystem::path& path);

}  // namespace binade::data
