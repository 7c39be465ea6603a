#include "binade/train/checkpoint_writer.h"

#include <chrono>
#include <functional>
#include <utility>

#include "binade/base/execution.h"
#include "binade/io/file.h"
#include "binade/io/folder.h"
#include "binade/io/weight_shards.h"
#include "binade/train/shard_writer.h"

namespace binade::train {

namespace fs = std::filesystem;

namespace {

constexpr const char* writer_op = "checkpoint";

}  // namespace

struct CheckpointWriter::Shared {
  Trainer& trainer;
  io::AtomicFolder folder;
  io::Manifest manifest;
  ShardWriter shard = {};

  // After this rank has written its other files: once all shards are there, the index and the
  // manifest follow, and the folder gets its name.
  void finish() {
    manifest.files = shard.finish(trainer);
    require_shards(folder.path(), manifest.files);
    io::AtomicFile index(folder.path() / io::weight_index_file, writer_op);
    index.append(trainer.weight_shards().index());
    index.commit();
    write_manifest(manifest, folder.path());
    folder.commit([](const std::string&) { return false; });
  }
};

CheckpointWriter::CheckpointWriter(io::Path folder, int64_t keep, Origin origin)
    : folder_(std::move(folder)), keep_(keep), origin_(std::move(origin)) {}

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
  if (trainer.shares_weights() && !has_checkpoint(folder_, taken.step)) {
    write_shared(trainer, std::move(taken), folder_ / io::checkpoint_name(trainer.steps()));
  } else {
    write([this](const Snapshot& snapshot) { return write_checkpoint(snapshot, folder_, keep_); },
          std::move(taken));
  }
  return earlier;
}

std::optional<fs::path> CheckpointWriter::save_model(Trainer& trainer, std::string_view tokenizer,
                                                     const io::CompanionFiles& companions,
                                                     const io::Path& folder) {
  std::optional<fs::path> earlier = wait();
  Snapshot taken = take_snapshot(trainer, tokenizer, companions);
  taken.origin = origin_;
  taken.state.clear();
  if (trainer.shares_weights()) {
    write_shared(trainer, std::move(taken), folder);
  } else {
    write(
        [folder](const Snapshot& snapshot) {
          write_model(snapshot, folder);
          return folder.plain();
        },
        std::move(taken));
  }
  return earlier;
}

void CheckpointWriter::write(std::function<fs::path(const Snapshot&)> writer, Snapshot taken) {
  auto work = [snapshot = std::move(taken), writer = std::move(writer)]() mutable {
    fs::path written = writer(snapshot);
    snapshot = {};  // frees its memory before the checkpoint is reported
    return written;
  };
  writing_ = std::async(std::launch::async, execution::carried(std::move(work)));
}

void CheckpointWriter::write_shared(Trainer& trainer, Snapshot taken, const io::Path& target) {
  shared_.reset(new Shared{trainer, {target, writer_op}, manifest_of(taken)});
  const io::Path folder = shared_->folder.path();
  shared_->shard.start(trainer, folder.string());
  write(
      [folder, target](const Snapshot& snapshot) {
        write_files(snapshot, folder);
        return target.plain();
      },
      std::move(taken));
}

std::optional<fs::path> CheckpointWriter::poll() {
  const bool done =
      writing_.valid() && writing_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  return done ? wait() : std::nullopt;
}

std::optional<fs::path> CheckpointWriter::wait() {
  if (!writing_.valid()) return {};
  const std::unique_ptr<Shared> shared = std::move(shared_);
  fs::path written = writing_.get();
  if (shared == nullptr) return written;
  shared->finish();
  remove_old_checkpoints(folder_, keep_);
  return written;
}

}  // namespace binade::train
