#include "binade/ranks/tally.h"

#include <gtest/gtest.h>

#include "binade/backend/exchange.h"
#include "binade/ops/create/create.h"

namespace binade::ranks {
namespace {

std::vector<double> values_of(const Tensor& x) {
  std::vector<double> values;
  for (int64_t i = 0; i < x.numel(); ++i) values.push_back(x.data<double>()[i]);
  return values;
}

// Every rank of a simulation sends what this one does, so rank r's numbers are known.
TEST(Tally, PutsTheNumbersOfAllRanksInOrder) {
  // Rank 0 owns the first 16,384 elements of parameter 0, rank 1 the rest and parameter 1.
  const std::vector<int64_t> sizes = {3 * 16384, 16384};
  const Partition partition(sizes, 2, {}, 1 << 20);
  int64_t owned = 0;
  for (size_t i = 0; i < sizes.size(); ++i) owned += partition.owned(i, 0).size();
  ASSERT_EQ(owned, 2 * 16384);
  std::vector<double> parts;
  for (int64_t i = 0; i < backend::norm_parts(owned, Device::cpu()); ++i)
    parts.push_back(static_cast<double>(i) + 0.5);
  ASSERT_EQ(parts.size(), 16u);
  Tally tally(simulated(0, 2), partition, sizes.size(), 3, Device::cpu());
  const Tensor found_inf = full({1}, 1, DType::f32), first_bad = full({1}, 7, DType::i32);
  const StepNumbers all =
      tally.exchange({.norm_parts = tensor(parts, {std::ssize(parts)}, DType::f64),
                      .found_inf = found_inf,
                      .first_bad = first_bad,
                      .losses = {full({}, 4, DType::f32), full({}, 5, DType::f32)},
                      .maxima = tensor({3.0, 8.0}, {2}, DType::f64),
                      .sums = tensor({2.0}, {1}, DType::f64),
                      .most = tensor({6.0}, {1}, DType::f64)});
  EXPECT_TRUE(all.found_inf.same_as(found_inf));
  EXPECT_EQ(found_inf.item(), 1);
  EXPECT_EQ(first_bad.item(), 7);
  EXPECT_EQ(values_of(all.maxima), (std::vector<double>{3, 8}));
  EXPECT_EQ(values_of(all.sums), std::vector<double>{4});
  EXPECT_EQ(values_of(all.most), std::vector<double>{6});
  // Micro-batches 0 and 2 are rank 0's, 1 is rank 1's first.
  ASSERT_EQ(all.losses.size(), 3u);
  EXPECT_EQ(all.losses[0].item(), 4);
  EXPECT_EQ(all.losses[1].item(), 4);
  EXPECT_EQ(all.losses[2].item(), 5);
  // Parameters in their order, and the owners of each in theirs; who owns what, the partition says.
  std::vector<double> expected;
  std::vector<size_t> next(2);
  for (size_t i = 0; i < sizes.size(); ++i) {
    for (int rank = 0; rank < 2; ++rank) {
      for (int64_t left = partition.owned(i, rank).size(); left > 0; left -= 2048)
        expected.push_back(parts.at(next[static_cast<size_t>(rank)]++));
    }
  }
  EXPECT_EQ(values_of(all.norm_parts), expected);
}

// Nothing is copied: on a GPU, copies would be kernels of every step.
TEST(Tally, ReturnsTheNumbersOfARankAlone) {
  const std::vector<int64_t> sizes = {100};
  const Partition partition(sizes, 1, {}, 1);
  Tally tally(single(), partition, sizes.size(), 1, Device::cpu());
  const StepNumbers own{.norm_parts = tensor({1.5}, {1}, DType::f64),
                        .found_inf = full({1}, 1, DType::f32),
                        .first_bad = full({1}, 7, DType::i32),
                        .losses = {full({}, 4, DType::f32)}};
  const StepNumbers all = tally.exchange(own);
  EXPECT_TRUE(all.norm_parts.same_as(own.norm_parts));
  EXPECT_TRUE(all.found_inf.same_as(own.found_inf));
  EXPECT_TRUE(all.first_bad.same_as(own.first_bad));
  ASSERT_EQ(all.losses.size(), 1u);
  EXPECT_TRUE(all.losses[0].same_as(own.losses[0]));
}

}  // namespace
}  // namespace binade::ranks
