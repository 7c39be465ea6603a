#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace binade::data {

// A map of 64-bit keys to 64-bit values with open addressing, for lookups in innermost loops.
class FlatMap {
 public:
  static constexpr uint64_t none = UINT64_MAX;  // no value, and no key

  explicit FlatMap(size_t expected = 0)
      : slots_(std::bit_ceil(expected * 2 + 2)), mask_(slots_.size() - 1) {}

  // Replaces the value of a key that is there.
  void set(uint64_t key, uint64_t value) {
    if ((used_ + 1) * 2 > slots_.size()) grow();
    Slot& slot = slots_[slot_of(key)];
    if (slot.key == none) ++used_;
    slot = {key, value};
  }
  // `none` if there is no such key.
  uint64_t find(uint64_t key) const { return slots_[slot_of(key)].value; }

 private:
  struct Slot {
    uint64_t key = none, value = none;
  };

  size_t slot_of(uint64_t key) const {
    // Fibonacci hashing: the high bits of the product depend on all of the key.
    size_t at = static_cast<size_t>((key ^ key >> 32U) * 0x9E3779B97F4A7C15U >> 20U) & mask_;
    while (slots_[at].key != key && slots_[at].key != none) at = (at + 1) & mask_;
    return at;
  }
  void grow() {
    FlatMap larger(slots_.size());
    for (const Slot& slot : slots_) {
      if (slot.key != none) larger.set(slot.key, slot.value);
    }
    *this = std::move(larger);
  }

  std::vector<Slot> slots_;
  size_t mask_;
  size_t used_ = 0;
};

}  // namespace binade::data
