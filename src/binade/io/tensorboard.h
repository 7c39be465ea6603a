#pragma once

#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>

// Event files that TensorBoard reads: records of protocol buffers with checksums.
namespace binade::io {

struct Scalar {
  std::string_view tag;
  double value = 0;
};

// One record each, as it stands in the file. `time` is in seconds since 1970.
std::string version_record(double time);
// Tells readers to forget what earlier files of the folder say of `step` and later ones.
std::string restart_record(double time, int64_t step);
std::string scalars_record(double time, int64_t step, std::span<const Scalar> scalars);

// A new event file in a folder, which is made where needed. It follows the earlier ones there, and
// what they say of the steps after `step` no longer counts.
class EventWriter {
 public:
  EventWriter(const std::filesystem::path& folder, int64_t step);

  // Written through at once. Fails where the disk is full.
  void add(int64_t step, std::span<const Scalar> scalars);

 private:
  void write(const std::string& record);

  std::filesystem::path path_;
  std::ofstream file_;
};

}  // namespace binade::io
