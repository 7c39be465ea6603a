#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "binade/io/file.h"

// Event files that TensorBoard reads: records of protocol buffers with checksums.
namespace binade::io {

struct Scalar {
  std::string_view tag;
  double value = 0;
};

// One record each, in the file's format. `time` is in seconds since 1970.
std::string version_record(double time);
// Makes readers discard the records of earlier files from `step` on.
std::string restart_record(double time, int64_t step);
std::string scalars_record(double time, int64_t step, std::span<const Scalar> scalars);

// A new event file in a folder, which is created if needed. It invalidates what earlier files there
// recorded after `step`.
class EventWriter {
 public:
  EventWriter(const Path& folder, int64_t step);

  // Written immediately. Fails if the disk is full.
  void add(int64_t step, std::span<const Scalar> scalars);

 private:
  std::optional<AppendFile> file_;
};

}  // namespace binade::io
