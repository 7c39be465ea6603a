#include "binade/train/shard_writer.h"

#include <fmt/format.h>

#include <filesystem>
#include <sstream>
#include <utility>
#include <vector>

#include "binade/base/error.h"
#include "binade/base/execution.h"
#include "binade/io/path.h"
#include "binade/io/safetensors.h"

namespace binade::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* shard_op = "checkpoint";
constexpr const char* shared_hint =
    "weight_shards needs a file system that all ranks share; without it rank 0 writes all";

void require_folder(const std::string& folder) {
  std::error_code error;
  if (fs::is_directory(folder, error)) return;
  fail(shard_op, {.argument = folder,
                  .expected = "the folder that rank 0 has made for the shards of this checkpoint",
                  .found = "nothing there",
                  .hint = shared_hint});
}

FileFacts write_shard(const WeightShard& shard, const io::Path& folder) {
  if (shard.tensors.empty()) return {};  // more ranks than tensors
  io::save_safetensors(folder / shard.file, shard.tensors);
  return {{shard.file, io::describe_file(folder / shard.file, shard_op)}};
}

// A line for each file; names and hashes have no spaces.
std::string to_text(const FileFacts& files) {
  std::string text;
  for (const auto& [name, file] : files)
    text += fmt::format("{} {} {}\n", name, file.bytes, file.hash);
  return text;
}

void add_files(const std::string& text, FileFacts& files) {
  std::istringstream in(text);
  std::string name;
  io::Manifest::File file;
  while (in >> name >> file.bytes >> file.hash) files[name] = file;
}

}  // namespace

void require_shards(const io::Path& folder, const FileFacts& files) {
  for (const auto& [name, file] : files) {
    std::error_code error;
    const fs::path path = (folder / name).plain();
    const auto found = static_cast<int64_t>(fs::file_size(path, error));
    if (!error && found == file.bytes) continue;
    fail(shard_op,
         {.argument = path.string(),
          .expected = fmt::format("the {} bytes that a rank has written there", file.bytes),
          .found = error ? error.message() : fmt::format("{}", found),
          .hint = shared_hint});
  }
}

ShardWriter::~ShardWriter() {
  if (writing_.valid()) writing_.wait();
}

void ShardWriter::start(Trainer& trainer, const std::string& folder) {
  WeightShard taken = trainer.take_shard(folder);
  require_folder(folder);
  auto write = [shard = std::move(taken),
                path = io::Path(io::Directory(folder, shard_op))]() mutable {
    const FileFacts files = write_shard(shard, path);
    shard = {};  // frees its memory before the shard is reported
    return files;
  };
  writing_ = std::async(std::launch::async, execution::carried(std::move(write)));
}

FileFacts ShardWriter::finish(Trainer& trainer) {
  trainer.announce({Order::join});
  const FileFacts own = writing_.get();
  FileFacts files;
  for (const std::string& text : trainer.ranks().all_gather_text("shards of weights", to_text(own)))
    add_files(text, files);
  return files;
}

}  // namespace binade::train
