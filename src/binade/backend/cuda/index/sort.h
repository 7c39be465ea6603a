#pragma once

#include <cstdint>

namespace binade::backend::cuda {

// The keys of [0, count) in ascending order, equal ones in the order they came in, and the values
// that came with them. Only the low `bits` of the keys count. (Key: uint32_t or uint64_t)
template <class Key>
void sort_pairs(const Key* keys, Key* sorted_keys, const Key* values, Key* sorted_values,
                int64_t count, int bits);

}  // namespace binade::backend::cuda
