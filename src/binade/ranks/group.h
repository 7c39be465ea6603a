#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace binade::ranks {

// What ranks share: those that share it form a group, and every rank has a place in one group of
// each kind.
enum class Group : uint8_t {
  data,  // micro-batches of a step, sums of their gradients, and the optimizer's state: all ranks
};

// The place of a rank in a group. Items of work are dealt in turn: rank r does items r, r + size,
// r + 2 size, ...
struct Place {
  int rank = 0, size = 1;

  bool is_alone() const { return size == 1; }
  // The items of this rank, of `count` in all; the number of those of any rank.
  std::vector<int64_t> own_items(int64_t count) const;
  int64_t item_count(int of_rank, int64_t count) const;
  // The rank that does an item, and the item's index among those of that rank.
  int rank_of(int64_t item) const { return static_cast<int>(item % size); }
  size_t index_of(int64_t item) const { return static_cast<size_t>(item / size); }
};

}  // namespace binade::ranks
