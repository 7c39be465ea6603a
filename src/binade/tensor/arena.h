#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace binade::memory {

// Places blocks in a range of addresses that grows at its end. A request takes the lowest free
// place that fits, so placement depends on the blocks in use alone and not on earlier requests: a
// training step finds its blocks where the step before had them, and needs no more memory. Free
// neighbors merge. Only offsets are handled here, never memory.
class Arena {
 public:
  // Whose a free place is. Places of different owners do not merge; null: everyone's.
  using Owner = const void*;

  // The offset of a block of `bytes`, in places of `owner` and of everyone.
  std::optional<size_t> take(size_t bytes, Owner owner);
  // Returns a block to `owner`.
  void give(size_t offset, size_t bytes, Owner owner);
  // The places of `owner` become everyone's.
  void disown(Owner owner);

  size_t size() const { return size_; }
  // Bytes at the end that are free and everyone's.
  size_t free_at_end() const;
  // Adds free bytes at the end, and removes such bytes.
  void grow(size_t bytes);
  void shrink(size_t bytes);

 private:
  struct Place {
    size_t offset, bytes;
    Owner owner;
  };

  void remove(size_t begin, size_t end, size_t last);

  std::vector<Place> free_;  // by offset
  size_t size_ = 0;
};

}  // namespace binade::memory
