#include "binade/ranks/device_tally.h"

#include <gtest/gtest.h>

#include "binade/ops/create/create.h"

namespace binade::ranks {
namespace {

std::vector<double> values_of(const Tensor& x) {
  std::vector<double> values;
  for (int64_t i = 0; i < x.numel(); ++i) values.push_back(x.data<double>()[i]);
  return values;
}

// Every rank of a simulation sends what this one does, so rank r's numbers are known.
TEST(DeviceTally, PutsTheNumbersOfAllRanksInOrder) {
  // Rank 0 owns the first 16,384 elements of parameter 0, rank 1 the rest and parameter 1.
  const std::vector<int64_t> sizes = {3 * 16384, 16384};
  const Partition partition(sizes, 2, {}, 1 << 20);
  int64_t owned = 0;
  for (size_t i = 0; i < sizes.size(); ++i) owned += partition.owned(i, 0).size();
  ASSERT_EQ(owned, 2 * 16384);
  DeviceTally tally(simulated(0, 2), partition, sizes.size(), 3, Device::cpu());
  const DeviceTally::Whole whole =
      tally.exchange({.norm_parts = tensor({1.5, 2.5}, {2}, DType::f64),
                      .found_inf = full({1}, 1, DType::f32),
                      .first_bad = full({1}, 7, DType::i32),
                      .losses = {full({}, 4, DType::f32), full({}, 5, DType::f32)},
                      .maxima = tensor({3.0, 8.0}, {2}, DType::f64),
                      .sums = tensor({2.0}, {1}, DType::f64),
                      .most = tensor({6.0}, {1}, DType::f64)});
  EXPECT_EQ(values_of(whole.found_inf), std::vector<double>{1});
  EXPECT_EQ(values_of(whole.first_bad), std::vector<double>{7});
  EXPECT_EQ(values_of(whole.maxima), (std::vector<double>{3, 8}));
  EXPECT_EQ(values_of(whole.sums), std::vector<double>{4});
  EXPECT_EQ(values_of(whole.most), std::vector<double>{6});
  // Micro-batches 0 and 2 are rank 0's, 1 is rank 1's first.
  ASSERT_EQ(whole.losses.size(), 3u);
  EXPECT_EQ(whole.losses[0].item(), 4);
  EXPECT_EQ(whole.losses[1].item(), 4);
  EXPECT_EQ(whole.losses[2].item(), 5);
  // Parameters in their order, and the owners of each in theirs; who owns what, the partition says.
  std::vector<double> expected;
  std::vector<size_t> next(2);
  for (size_t i = 0; i < sizes.size(); ++i) {
    for (int rank = 0; rank < 2; ++rank) {
      for (int64_t left = partition.owned(i, rank).size(); left > 0; left -= 16384)
        expected.push_back(next[static_cast<size_t>(rank)]++ == 0 ? 1.5 : 2.5);
    }
  }
  EXPECT_EQ(values_of(whole.norm_parts), expected);
}

}  // namespace
}  // namespace binade::ranks
