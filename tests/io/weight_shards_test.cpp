#include "binade/io/weight_shards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "binade/io/safetensors.h"
#include "binade/ops/create/create.h"
#include "io/temporary_folder.h"
#include "support/error_of.h"
#include "support/values.h"

namespace binade::io {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Sizes = std::map<std::string, int64_t>;

std::vector<int64_t> loads_of(const WeightShards& shards, const Sizes& sizes) {
  std::vector<int64_t> loads(static_cast<size_t>(shards.count()));
  for (const auto& [name, bytes] : sizes) {
    for (int shard = 0; shard < shards.count(); ++shard) {
      if (shards.contains(shard, name)) loads[static_cast<size_t>(shard)] += bytes;
    }
  }
  return loads;
}

// The smallest possible size of the largest shard, by trying every way to deal the tensors out.
int64_t best_largest(const std::vector<int64_t>& sizes, int shards) {
  int64_t ways = 1, best = INT64_MAX;
  for (size_t i = 0; i < sizes.size(); ++i) ways *= shards;
  for (int64_t way = 0; way < ways; ++way) {
    std::vector<int64_t> loads(static_cast<size_t>(shards));
    int64_t rest = way;
    for (const int64_t size : sizes) {
      loads[static_cast<size_t>(rest % shards)] += size;
      rest /= shards;
    }
    best = std::min(best, *std::ranges::max_element(loads));
  }
  return best;
}

TEST(WeightShards, AreBalancedWithinAThirdOfTheBestOfAllWays) {
  std::mt19937_64 draw(7);
  for (int trial = 0; trial < 60; ++trial) {
    const int count = 2 + trial % 3;
    Sizes sizes;
    std::vector<int64_t> list;
    for (int i = 0; i < count + trial % 5; ++i) {
      list.push_back(static_cast<int64_t>(draw() % 1000) + 1);
      sizes["tensor." + std::to_string(i)] = list.back();
    }
    const WeightShards shards(sizes, count);
    ASSERT_EQ(shards.count(), count);
    const std::vector<int64_t> loads = loads_of(shards, sizes);
    EXPECT_GT(*std::ranges::min_element(loads), 0) << "trial " << trial;
    EXPECT_LE(3 * *std::ranges::max_element(loads), 4 * best_largest(list, count))
        << "trial " << trial;
  }
}

TEST(WeightShards, HoldEachTensorOnce) {
  const Sizes sizes = {{"a", 5}, {"b", 0}, {"c", 5}, {"d", 40}, {"e", 7}};
  for (const int count : {1, 2, 3, 5}) {
    const WeightShards shards(sizes, count);
    for (const auto& [name, bytes] : sizes) {
      int holders = 0;
      for (int shard = 0; shard < shards.count(); ++shard)
        holders += shards.contains(shard, name) ? 1 : 0;
      EXPECT_EQ(holders, 1) << name;
    }
  }
  EXPECT_TRUE(WeightShards(sizes, 2).contains(0, "d"));
}

TEST(WeightShards, NoneIsEmpty) {
  const WeightShards shards({{"a", 0}, {"b", 0}, {"c", 8}}, 5);
  EXPECT_EQ(shards.count(), 3);
  EXPECT_TRUE(shards.contains(0, "c"));
  EXPECT_TRUE(shards.contains(1, "a"));
  EXPECT_TRUE(shards.contains(2, "b"));
  EXPECT_FALSE(shards.contains(4, "a"));
}

// The names and the index of transformers' save_pretrained().
TEST(WeightShards, HaveTheIndexOfHuggingFace) {
  const Sizes sizes = {{"wte.weight", 800}, {"h.0.ln_1.bias", 16}, {"wpe.weight", 100}};
  const WeightShards shards(sizes, 2);
  EXPECT_EQ(shards.file(1), "model-00002-of-00002.safetensors");
  EXPECT_EQ(nlohmann::json::parse(shards.index()),
            nlohmann::json::parse(R"({"metadata": {"total_size": 916}, "weight_map": {
  "h.0.ln_1.bias": "model-00002-of-00002.safetensors",
  "wpe.weight": "model-00002-of-00002.safetensors",
  "wte.weight": "model-00001-of-00002.safetensors"}})"));
}

TEST(WeightShards, AreReadByTheIndex) {
  const testing::TemporaryFolder folder;
  const StateDict tensors = {{"a", full({3}, 1, DType::f32)}, {"b", full({2}, 2, DType::f32)}};
  const WeightShards shards({{"a", 12}, {"b", 8}}, 2);
  save_safetensors(folder / shards.file(0), {{"a", tensors.at("a")}});
  save_safetensors(folder / shards.file(1), {{"b", tensors.at("b")}});
  const auto index = folder.put(weight_index_file, shards.index());
  const TensorStore store(index);
  EXPECT_EQ(store.entries().size(), 2U);
  EXPECT_EQ(to_vector(store.load("a")), to_vector(tensors.at("a")));
  EXPECT_EQ(to_vector(store.load("b")), to_vector(tensors.at("b")));

  // A shard that holds another's tensor, too, might hold other values of it.
  save_safetensors(folder / shards.file(1), tensors);
  EXPECT_THAT(test::error_of([&] { TensorStore twice(index); }),
              AllOf(HasSubstr("model-00002-of-00002.safetensors (\"a\"): expected each tensor in "
                              "one shard, this one in model-00001-of-00002.safetensors"),
                    HasSubstr("found it in both")));
  // One of another model.
  save_safetensors(folder / shards.file(1), {{"c", tensors.at("b")}});
  EXPECT_THAT(test::error_of([&] { TensorStore foreign(index); }),
              HasSubstr("expected a shard that holds \"b\", found "
                        "\"model-00002-of-00002.safetensors\", which does not"));
  std::filesystem::remove(folder / shards.file(1));
  EXPECT_THAT(test::error_of([&] { TensorStore missing(index); }),
              HasSubstr("model-00002-of-00002.safetensors"));
}

}  // namespace
}  // namespace binade::io
