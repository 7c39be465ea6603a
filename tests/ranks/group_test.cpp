#include "binade/ranks/group.h"

#include <gtest/gtest.h>

#include "binade/ranks/communicator.h"

namespace binade::ranks {
namespace {

// Ranks in turn do all items once, each in the order of its own.
TEST(Group, DealsEachItemOnce) {
  for (const int size : {1, 2, 3, 5}) {
    for (const int64_t count : {0, 1, 2, 5, 7}) {
      std::vector<int> done(static_cast<size_t>(count));
      for (int rank = 0; rank < size; ++rank) {
        const Place place{rank, size};
        const std::vector<int64_t> own = place.own_items(count);
        for (int of = 0; of < size; ++of)
          EXPECT_EQ(place.item_count(of, count), std::ssize(Place{of, size}.own_items(count)));
        for (size_t i = 0; i < own.size(); ++i) {
          ++done[static_cast<size_t>(own[i])];
          EXPECT_EQ(place.index_of(own[i]), i);
          EXPECT_EQ(place.rank_of(own[i]), rank);
        }
      }
      EXPECT_EQ(done, std::vector<int>(static_cast<size_t>(count), 1)) << size << " " << count;
    }
  }
  EXPECT_EQ((Place{1, 3}.own_items(8)), (std::vector<int64_t>{1, 4, 7}));
}

TEST(Group, OfDataHasAllRanks) {
  const Place place = simulated(1, 3)->place(Group::data);
  EXPECT_EQ(place.rank, 1);
  EXPECT_EQ(place.size, 3);
  EXPECT_FALSE(place.is_alone());
  EXPECT_TRUE(single()->place(Group::data).is_alone());
}

}  // namespace
}  // namespace binade::ranks
