#pragma once

#include <cstddef>

#include "binade/formats/number.h"

namespace binade::formats {

// Rounds to bf16, to nearest even, with the CPU's native instruction; equals narrow() bit for bit.
// Null if the CPU has no such instruction.
using NarrowBf16 = void (*)(const float* src, bf16* dst, size_t n);
NarrowBf16 native_narrow_bf16();

}  // namespace binade::formats
