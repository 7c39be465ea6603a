#include "binade/ranks/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace binade::ranks {
namespace {

Partition of(const std::vector<int64_t>& sizes, int ranks, int64_t bucket = 100000,
             const std::vector<size_t>& forward = {}) {
  return {sizes, ranks, forward, bucket};
}

const std::vector<int64_t> model_sizes = {70000, 3, 16384, 16385, 1, 200000, 7, 50000};

TEST(Partition, GivesEachElementOneOwner) {
  for (const int ranks : {1, 2, 3, 4, 5, 7, 8, 64, 1000}) {
    const Partition partition = of(model_sizes, ranks);
    int64_t owned = 0;
    for (int rank = 0; rank < ranks; ++rank) owned += partition.owned_elements(rank);
    EXPECT_EQ(owned, std::accumulate(model_sizes.begin(), model_sizes.end(), int64_t{0}));
    for (size_t i = 0; i < model_sizes.size(); ++i) {
      int64_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Range range = partition.owned(i, rank);
        if (range.size() == 0) continue;
        EXPECT_EQ(range.begin, next);
        next = range.end;
      }
      EXPECT_EQ(next, model_sizes[i]) << ranks << " ranks, parameter " << i;
    }
  }
}

// So that every owner has whole pieces of the gradient norm.
TEST(Partition, ChangesOwnersAtChunksAlone) {
  for (const int ranks : {2, 3, 5, 8}) {
    const Partition partition = of(model_sizes, ranks);
    for (size_t i = 0; i < model_sizes.size(); ++i) {
      for (int rank = 0; rank < ranks; ++rank) {
        const Range range = partition.owned(i, rank);
        if (range.size() == 0) continue;
        EXPECT_EQ(range.begin % Partition::chunk, 0);
        EXPECT_TRUE(range.end % Partition::chunk == 0 || range.end == model_sizes[i]);
      }
    }
  }
}

TEST(Partition, SharesEvenlyUpToAChunkPerBucket) {
  const std::vector<int64_t> sizes = {4000000, 1000, 3000000, 1000, 5000000};
  for (const int ranks : {2, 3, 8}) {
    const Partition partition = of(sizes, ranks, 4000000);
    const int64_t even = 12002000 / ranks;
    const auto slack = static_cast<int64_t>(partition.buckets().size()) * Partition::chunk;
    for (int rank = 0; rank < ranks; ++rank)
      EXPECT_NEAR(static_cast<double>(partition.owned_elements(rank)), static_cast<double>(even),
                  static_cast<double>(slack));
  }
}

TEST(Partition, FillsBucketsFromTheLastParameter) {
  const Partition partition = of({10, 20, 30, 40}, 2, 50);
  ASSERT_EQ(partition.buckets().size(), 2u);
  EXPECT_EQ(partition.buckets()[0].parameters, (std::vector<size_t>{3, 2}));
  EXPECT_EQ(partition.buckets()[0].starts, (std::vector<int64_t>{0, 40}));
  EXPECT_EQ(partition.buckets()[1].parameters, (std::vector<size_t>{1, 0}));
  EXPECT_EQ(partition.largest_bucket(), 70);
  // In the order of a forward that differs from the optimizer's.
  const Partition other = of({10, 20, 30, 40}, 2, 50, {3, 2, 1, 0});
  EXPECT_EQ(other.buckets()[0].parameters, (std::vector<size_t>{0, 1, 2}));
}

// Parameters 1, 2, 4, 5 and 7 have one owner each; the others are shared.
const std::vector<double> some_costs = {0, 5, 3, 0, 4, 9, 0, 2};

TEST(Partition, GivesParametersWithACostOneOwner) {
  for (const int ranks : {1, 2, 3, 5, 8, 64}) {
    const Partition partition(model_sizes, ranks, {}, 100000, some_costs);
    std::vector<double> loads(static_cast<size_t>(ranks));
    for (size_t i = 0; i < model_sizes.size(); ++i) {
      int64_t elements = 0;
      int owners = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Range range = partition.owned(i, rank);
        elements += range.size();
        owners += range.size() > 0 ? 1 : 0;
        if (range.size() > 0) loads[static_cast<size_t>(rank)] += some_costs[i];
      }
      EXPECT_EQ(elements, model_sizes[i]);
      EXPECT_TRUE(some_costs[i] == 0 || owners == 1) << ranks << " ranks, parameter " << i;
    }
    // No owner has more than the others and one parameter on top.
    const double most = *std::max_element(loads.begin(), loads.end());
    EXPECT_LE(most, std::max(9.0, 23.0 / ranks + 4));
  }
  const Partition two(model_sizes, 2, {}, 100000, some_costs);
  // 9 and 3 to one rank, 5, 4 and 2 to the other.
  EXPECT_EQ(two.owned(5, 0).size(), 200000);
  EXPECT_EQ(two.owned(2, 0).size(), 16384);
  for (const size_t i : {1, 4, 7}) EXPECT_EQ(two.owned(i, 1).size(), model_sizes[i]);
}

TEST(Partition, OrdersBucketsByTheirLastGradient) {
  const Partition partition({{10, 20, 30, 40, 50, 60}}, 2, {}, 80, {{0, 1, 0, 1, 1, 0}});
  // Of shared parameters 5 and 2, then 0; of the others 4 and 3, then 1.
  std::vector<std::vector<size_t>> members;
  for (const Bucket& bucket : partition.buckets()) {
    std::vector<size_t> sorted = bucket.parameters;
    std::sort(sorted.begin(), sorted.end());
    members.push_back(sorted);
    int64_t end = 0;
    for (size_t k = 0; k < bucket.parameters.size(); ++k) {
      EXPECT_EQ(bucket.starts[k], end);
      end += 10 * (static_cast<int64_t>(bucket.parameters[k]) + 1);
    }
    EXPECT_EQ(bucket.bounds.back(), end);
    EXPECT_EQ(bucket.size, end);
  }
  EXPECT_EQ(members, (std::vector<std::vector<size_t>>{{3, 4}, {2, 5}, {1}, {0}}));
}

TEST(Partition, PartsAreTheOwnedRanges) {
  const Partition partition = of(model_sizes, 3);
  for (int rank = 0; rank < 3; ++rank) {
    const std::vector<optim::Part> parts = partition.parts(rank);
    ASSERT_EQ(parts.size(), model_sizes.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      EXPECT_EQ(parts[i].begin, partition.owned(i, rank).begin);
      EXPECT_EQ(parts[i].count, partition.owned(i, rank).size());
    }
  }
}

}  // namespace
}  // namespace binade::ranks
