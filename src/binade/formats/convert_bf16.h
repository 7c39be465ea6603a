#pragma once

#include <cstddef>

#include "binade/formats/number.h"

namespace binade::formats {

// Rounds to bf16 to nearest even with the CPU's own instruction, which gives the bits of
// narrow(). Null where there is none.
using NarrowBf16 = void (*)(const float* src, bf16* dst, size_t n);
NarrowBf16 native_narrow_bf16();

}  // namespace binade::formats
