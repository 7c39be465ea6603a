#include "binade/tensor/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <utility>
#include <vector>

namespace binade::memory {
namespace {

constexpr int pools[2] = {};
const Arena::Owner first_pool = &pools[0], second_pool = &pools[1];

TEST(Arena, TakesTheLowestPlaceThatFits) {
  Arena arena;
  arena.grow(100);
  EXPECT_EQ(arena.take(30, nullptr), 0U);
  EXPECT_EQ(arena.take(20, nullptr), 30U);
  EXPECT_EQ(arena.take(40, nullptr), 50U);
  EXPECT_EQ(arena.take(20, nullptr), std::nullopt) << "10 are left";
  arena.give(0, 30, nullptr);
  EXPECT_EQ(arena.take(10, nullptr), 0U) << "a part of the freed place";
  EXPECT_EQ(arena.take(20, nullptr), 10U) << "and its rest";
  EXPECT_EQ(arena.take(10, nullptr), 90U);
}

TEST(Arena, FreeNeighborsMergeOnBothSides) {
  Arena arena;
  arena.grow(30);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(arena.take(10, nullptr));
  arena.give(0, 10, nullptr);
  arena.give(20, 10, nullptr);
  EXPECT_EQ(arena.take(30, nullptr), std::nullopt);
  arena.give(10, 10, nullptr);
  EXPECT_EQ(arena.take(30, nullptr), 0U);
}

TEST(Arena, GrowsAndShrinksAtItsEnd) {
  Arena arena;
  arena.grow(10);
  ASSERT_TRUE(arena.take(4, nullptr));
  EXPECT_EQ(arena.free_at_end(), 6U);
  arena.grow(10);
  EXPECT_EQ(arena.size(), 20U);
  EXPECT_EQ(arena.take(16, nullptr), 4U) << "old and new bytes are one place";
  EXPECT_EQ(arena.free_at_end(), 0U);
  arena.give(4, 16, nullptr);
  arena.shrink(16);
  EXPECT_EQ(arena.size(), 4U);
  EXPECT_EQ(arena.take(1, nullptr), std::nullopt);
}

TEST(Arena, OwnersShareNoPlace) {
  Arena arena;
  arena.grow(40);
  EXPECT_EQ(arena.take(10, first_pool), 0U) << "from everyone's";
  EXPECT_EQ(arena.take(10, second_pool), 10U);
  arena.give(0, 10, first_pool);
  arena.give(10, 10, second_pool);
  EXPECT_EQ(arena.take(10, nullptr), 20U) << "others get none of it";
  EXPECT_EQ(arena.take(20, first_pool), std::nullopt) << "places of two owners do not merge";
  EXPECT_EQ(arena.take(10, second_pool), 10U);
  EXPECT_EQ(arena.take(10, first_pool), 0U);
  arena.give(0, 10, first_pool);
  arena.give(10, 10, first_pool);
  arena.disown(first_pool);
  EXPECT_EQ(arena.take(20, nullptr), 0U) << "everyone's now, and merged";
}

// A pool's blocks land where they would without it, or a captured step would need more memory.
TEST(Arena, APlaceMayLieAcrossThoseOfItsOwnerAndOfEveryone) {
  Arena arena;
  arena.grow(60);
  EXPECT_EQ(arena.take(10, first_pool), 0U);
  EXPECT_EQ(arena.take(10, first_pool), 10U);
  arena.give(0, 10, first_pool);
  arena.give(10, 10, first_pool);
  EXPECT_EQ(arena.take(30, first_pool), 0U) << "20 of its own and 10 of everyone's";
  EXPECT_EQ(arena.take(5, nullptr), 30U);
  arena.give(0, 30, first_pool);
  EXPECT_EQ(arena.take(31, first_pool), std::nullopt);
  EXPECT_EQ(arena.take(30, nullptr), std::nullopt);
  EXPECT_EQ(arena.take(25, nullptr), 35U);
}

// Oracle: a map of the bytes in use. Blocks never overlap, and what is free can be taken.
TEST(Arena, RandomRequestsNeverOverlap) {
  constexpr size_t size = 4096;
  Arena arena;
  arena.grow(size);
  std::vector<bool> used(size);
  std::vector<std::pair<size_t, size_t>> blocks;
  std::mt19937 random(7);  // NOLINT: the same sequence in every run
  for (int i = 0; i < 20'000; ++i) {
    if (!blocks.empty() && random() % 2 == 0) {
      const size_t at = random() % blocks.size();
      const auto [offset, bytes] = blocks[at];
      arena.give(offset, bytes, nullptr);
      std::fill_n(used.begin() + static_cast<std::ptrdiff_t>(offset), bytes, false);
      blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(at));
      continue;
    }
    const size_t bytes = 1 + random() % 200;
    // The lowest run of free bytes that is long enough.
    std::optional<size_t> expected;
    for (size_t at = 0, run = 0; at < size && !expected; ++at) {
      run = used[at] ? 0 : run + 1;
      if (run == bytes) expected = at + 1 - bytes;
    }
    const std::optional<size_t> taken = arena.take(bytes, nullptr);
    ASSERT_EQ(taken, expected);
    if (!taken) continue;
    std::fill_n(used.begin() + static_cast<std::ptrdiff_t>(*taken), bytes, true);
    blocks.emplace_back(*taken, bytes);
  }
}

// A step whose blocks were all freed finds them at the same offsets, although the arena grew during
// the first one.
TEST(Arena, ASecondStepHasTheAddressesOfTheFirst) {
  Arena arena;
  const auto step = [&] {
    std::vector<size_t> offsets;
    std::vector<std::pair<size_t, size_t>> saved;
    const auto take = [&](size_t bytes) {
      std::optional<size_t> offset = arena.take(bytes, nullptr);
      if (!offset) {
        arena.grow(bytes - arena.free_at_end());
        offset = arena.take(bytes, nullptr);
      }
      offsets.push_back(*offset);
      return std::pair(*offset, bytes);
    };
    for (size_t layer = 1; layer <= 6; ++layer) {
      const auto passing = take(50 + 7 * layer);
      saved.push_back(take(100));
      saved.push_back(take(30));
      arena.give(passing.first, passing.second, nullptr);
    }
    std::vector<std::pair<size_t, size_t>> gradients;
    for (; !saved.empty(); saved.pop_back()) {
      gradients.push_back(take(11));
      arena.give(saved.back().first, saved.back().second, nullptr);
    }
    for (const auto& [offset, bytes] : gradients) arena.give(offset, bytes, nullptr);
    return offsets;
  };
  const std::vector<size_t> first = step();
  const size_t size = arena.size();
  EXPECT_EQ(step(), first);
  EXPECT_EQ(arena.size(), size);
}

// Each free place merges with its own neighbor, not with the first one.
TEST(Arena, DisownedPlacesMergeWithTheirNeighbors) {
  Arena arena;
  arena.grow(100);
  const int owner = 0, other = 0;
  ASSERT_EQ(arena.take(100, nullptr), 0u);
  arena.give(0, 10, &other);
  arena.give(30, 10, nullptr);
  arena.give(40, 10, &owner);
  arena.give(60, 20, &owner);
  arena.give(80, 20, nullptr);
  EXPECT_FALSE(arena.take(30, nullptr));
  EXPECT_EQ(arena.free_at_end(), 20u);
  arena.disown(&owner);
  EXPECT_EQ(arena.free_at_end(), 40u);
  EXPECT_EQ(arena.take(20, nullptr), 30u);
}

}  // namespace
}  // namespace binade::memory
