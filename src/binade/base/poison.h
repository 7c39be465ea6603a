#pragma once

#include <cstddef>
#include <cstdint>

// Fresh memory full of NaNs, so that reading what nothing has written shows in the results. The
// tests of this project run with it; BINADE_POISON=fill or guard asks for it in any program.
namespace binade {

enum class Poison : uint8_t {
  none,
  fill,   // tensors and scratch of kernels start with bytes of 0xFF
  guard,  // and end at an inaccessible page, so that reading past the end stops the program
};

Poison poison();
// Before the first tensor is made: a guarded block is not released as a plain one.
void set_poison(Poison mode);

// NaN in every floating type, -1 in integers.
inline constexpr int poison_byte = 0xFF;
void fill_with_poison(void* block, size_t bytes);

}  // namespace binade
