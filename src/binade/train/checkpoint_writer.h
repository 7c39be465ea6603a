#pragma once

#include <future>
#include <optional>

#include "binade/train/checkpoint.h"

namespace binade::train {

// Writes checkpoints in the background, one at a time. A failure there is thrown by the next call
// of any member.
class CheckpointWriter {
 public:
  // Each checkpoint records `origin`.
  CheckpointWriter(io::Path folder, int64_t keep, Origin origin = {})
      : folder_(std::move(folder)), keep_(keep), origin_(std::move(origin)) {}
  // Waits for the write. A failure is lost here, so call wait() first.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Takes a snapshot and starts to write it. Waits for an earlier checkpoint first, which it
  // returns as wait() does. `link` is the newest of the run's hash chain.
  std::optional<std::filesystem::path> save(Trainer& trainer, std::string_view tokenizer,
                                            const io::CompanionFiles& companions = {},
                                            const std::string& link = {});
  // Saves the model alone, which replaces what is in `folder` (write_model).
  std::optional<std::filesystem::path> save_model(Trainer& trainer, std::string_view tokenizer,
                                                  const io::CompanionFiles& companions,
                                                  const io::Path& folder);
  // The checkpoint that was completed since the last call, if any.
  std::optional<std::filesystem::path> poll();
  std::optional<std::filesystem::path> wait();

 private:
  io::Path folder_;
  int64_t keep_;
  Origin origin_;
  std::future<std::filesystem::path> writing_;
};

}  // namespace binade::train
