#pragma once

#include <cstddef>

// Blocks of memory that end at an inaccessible page (base/poison.h), rounded up to `alignment`:
// reading or writing behind that stops the program, and a change of the bytes up to there is found
// when the block is released. Slow, and never reused.
namespace binade::memory {

inline constexpr size_t alignment = 64;  // bytes: a cache line, and the widest vector register

// Aligned and full of poison; null when out of memory.
void* acquire_guarded(size_t bytes);
// Stops the program with a message if bytes beside the block were changed.
void release_guarded(void* block);

}  // namespace binade::memory
