#pragma once

#include <future>
#include <map>
#include <string>

#include "binade/io/manifest.h"
#include "binade/train/trainer.h"

namespace binade::train {

using FileFacts = std::map<std::string, io::Manifest::File>;

// This rank's shard of the weights of a checkpoint, if ranks share its writing
// (Trainer::shares_weights). Every rank has a writer; members are collective.
class ShardWriter {
 public:
  ShardWriter() = default;
  // Waits for the write.
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  // Copies this rank's tensors and begins to write them into a folder that rank 0 has made.
  void start(Trainer& trainer, const std::string& folder);
  // Waits until all ranks have written theirs. Returns size and hash of each file. A failure of any
  // rank ends all.
  FileFacts finish(Trainer& trainer);

 private:
  std::future<FileFacts> writing_;
};

// Fails unless these files are in the folder: what other ranks write may be on other machines.
void require_shards(const io::Path& folder, const FileFacts& files);

}  // namespace binade::train
