#pragma once

#include <future>
#include <optional>

#include "binade/train/checkpoint.h"

namespace binade::train {

// Writes checkpoints while training goes on, one at a time. What went wrong in the background is
// thrown by the next call of anything here.
class CheckpointWriter {
 public:
  CheckpointWriter(std::filesystem::path folder, int64_t keep)
      : folder_(std::move(folder)), keep_(keep) {}
  // Waits; a failure is then lost, so call wait() before.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Copies what the checkpoint holds and starts to write it. Waits for an earlier one first, which
  // it returns as wait() does.
  std::optional<std::filesystem::path> save(Trainer& trainer, std::string_view tokenizer);
  // The checkpoint that was finished since the last call, if any.
  std::optional<std::filesystem::path> poll();
  std::optional<std::filesystem::path> wait();

 private:
  std::filesystem::path folder_;
  int64_t keep_;
  std::future<std::filesystem::path> writing_;
};

}  // namespace binade::train
