#pragma once

#include <functional>
#include <future>
#include <memory>
#include <optional>

#include "binade/train/checkpoint.h"

namespace binade::train {

// Writes checkpoints in the background, one at a time. A failure there is thrown by the next call
// of any member. If ranks share the weights, members are collective: the others have a ShardWriter.
class CheckpointWriter {
 public:
  // Each checkpoint records `origin`.
  CheckpointWriter(io::Path folder, int64_t keep, Origin origin = {});
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
  // A folder that all ranks write to.
  struct Shared;

  void write(std::function<std::filesystem::path(const Snapshot&)> writer, Snapshot taken);
  void write_shared(Trainer& trainer, Snapshot taken, const io::Path& target);

  io::Path folder_;
  int64_t keep_;
  Origin origin_;
  std::future<std::filesystem::path> writing_;
  std::unique_ptr<Shared> shared_;  // while it is written
};

}  // namespace binade::train
