#pragma once

#include <cstdint>

namespace binade::backend::cuda {

// Sorts `count` pairs stably by ascending key. Only the low `bits` of the keys are compared. Key is
// uint32_t or uint64_t.
template <class Key>
void sort_pairs(const Key* keys, Key* sorted_keys, const Key* values, Key* sorted_values,
                int64_t count, int bits);

}  // namespace binade::backend::cuda
