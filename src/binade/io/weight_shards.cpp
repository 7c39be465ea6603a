#include "binade/io/weight_shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "binade/base/json.h"

namespace binade::io {

WeightShards::WeightShards(std::map<std::string, int64_t> bytes, int shards)
    : bytes_(std::move(bytes)),
      count_(static_cast<int>(std::min<int64_t>(shards, std::ssize(bytes_)))) {
  std::vector<std::pair<int64_t, std::string>> order;
  for (const auto& [name, size] : bytes_) order.emplace_back(size, name);
  std::ranges::stable_sort(order, [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<int64_t> loads(static_cast<size_t>(count_));
  // Tensors without elements count, too, so that no shard is empty.
  for (const auto& [size, name] : order) {
    const auto least = std::ranges::min_element(loads);
    shard_of_[name] = static_cast<int>(least - loads.begin());
    *least += std::max<int64_t>(size, 1);
  }
}

std::string WeightShards::file(int shard) const {
  return fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, count_);
}

std::string WeightShards::index() const {
  int64_t total = 0;
  for (const auto& [name, size] : bytes_) total += size;
  json::Writer out(2);
  out.begin_object().key("metadata").begin_object().key("total_size").value(total).end_object();
  out.key("weight_map").begin_object();
  for (const auto& [name, shard] : shard_of_) out.key(name).value(file(shard));
  return out.end_object().end_object().text() + "\n";
}

}  // namespace binade::io
