#pragma once

#include <cstddef>
#include <cstdint>

#include "binade/base/random.h"
#include "binade/formats/format.h"
#include "binade/formats/number.h"

// Vectorized array conversions, on the calling thread. T is f16, bf16, e4m3, e4m3fnuz, e5m2 or
// e8m0. Each element equals its scalar conversion (formats/format.h) bit for bit, for any n,
// alignment and instruction set. src and dst must not overlap.

namespace binade::formats {

template <class T>
void widen(const T* src, float* dst, size_t n);

// Does not accept Rounding::stochastic: use narrow_stochastic.
template <class T>
void narrow(const float* src, T* dst, size_t n, Rounding rounding = Rounding::nearest_even,
            Overflow overflow = Overflow::special);

// Element i draws random::bits(key.seed, key.stream, offset + i), so results do not depend on how
// an array is split.
template <class T>
void narrow_stochastic(const float* src, T* dst, size_t n, random::Key key, uint64_t offset = 0,
                       Overflow overflow = Overflow::special);

// random[i] = random::bits(key.seed, key.stream, first + i).
void fill_random(uint32_t* random, size_t n, random::Key key, uint64_t first);

// Rounds to TF32's ten mantissa bits, to nearest even. dst may be src.
void round_tf32(const float* src, float* dst, size_t n);

}  // namespace binade::formats
