#include "binade/train/checkpoint_writer.h"

#include <chrono>

#include "binade/base/execution.h"

namespace binade::train {

namespace fs = std::filesystem;

CheckpointWriter::~CheckpointWriter() {
  if (writing_.valid()) writing_.wait();
}

std::optional<fs::path> CheckpointWriter::save(Trainer& trainer, std::string_view tokenizer,
                                               const io::CompanionFiles& companions,
                                               const std::string& link) {
  std::optional<fs::path> earlier = wait();
  Snapshot taken = take_snapshot(trainer, tokenizer, companions);
  taken.origin = origin_;
  taken.link = link;
  auto write = [snapshot = std::move(taken), this]() mutable {
    fs::path written = write_checkpoint(snapshot, folder_, keep_);
    snapshot = {};  // frees its memory before the checkpoint is reported
    return written;
  };
  writing_ = std::async(std::launch::async, execution::carried(std::move(write)));
  return earlier;
}

std::optional<fs::path> CheckpointWriter::save_model(Trainer& trainer, std::string_view tokenizer,
                                                     const io::CompanionFiles& companions,
                                                     const io::Path& folder) {
  std::optional<fs::path> earlier = wait();
  Snapshot taken = take_snapshot(trainer, tokenizer, companions);
  taken.origin = origin_;
  taken.state.clear();
  auto write = [snapshot = std::move(taken), folder]() mutable {
    write_model(snapshot, folder);
    snapshot = {};
    return folder.plain();
  };
  writing_ = std::async(std::launch::async, execution::carried(std::move(write)));
  return earlier;
}

std::optional<fs::path> CheckpointWriter::poll() {
  const bool done =
      writing_.valid() && writing_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  return done ? wait() : std::nullopt;
}

std::optional<fs::path> CheckpointWriter::wait() {
  if (!writing_.valid()) return {};
  return writing_.get();
}

}  // namespace binade::train
