#pragma once

#include <cstdint>
#include <map>
#include <string>

// A model's weights in several files, as Hugging Face shards them: model-00001-of-00003.safetensors
// and so on, joined by model.safetensors.index.json.
namespace binade::io {

inline constexpr const char* weight_index_file = "model.safetensors.index.json";

// Which shard each tensor is in. Pure arithmetic: every rank computes the same.
class WeightShards {
 public:
  // `bytes` are those of each tensor. Whole tensors are dealt out, the largest first, each to the
  // shard with the fewest bytes. With more shards than tensors, the last ones do not exist.
  WeightShards(std::map<std::string, int64_t> bytes, int shards);

  int count() const { return count_; }
  bool contains(int shard, const std::string& tensor) const {
    return shard_of_.at(tensor) == shard;
  }
  std::string file(int shard) const;
  // The text of the index.
  std::string index() const;

 private:
  std::map<std::string, int64_t> bytes_;
  std::map<std::string, int> shard_of_;
  int count_;
};

}  // namespace binade::io
