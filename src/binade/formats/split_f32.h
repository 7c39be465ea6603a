#pragma once

#include <cstdint>

#include "binade/base/host_device.h"
#include "binade/formats/number.h"

// An f32 number as the nearest bf16 number and a signed rest of 16 bits, so that a bf16 weight and
// its f32 master weight share their upper bits.
namespace binade::formats {

struct SplitF32 {
  // Rounded to nearest; a number midway between two goes to the one of larger magnitude. With ties
  // to even, an even number would be nearest to 2^16 + 1 numbers, one more than a rest can tell
  // apart.
  bf16 nearest;
  int16_t rest;  // in units of f32's last place, in the direction of larger magnitudes
};

// Exact: join(split(x)) has the bits of x, also if its nearest bf16 number is an infinity. Of a NaN
// only the upper bits are kept.
BINADE_HD constexpr SplitF32 split(float x) {
  const uint32_t bits = float_bits(x);
  if ((bits & 0x7fffffff) > 0x7f800000)
    return {bf16::from_bits(static_cast<uint16_t>(bits >> 16 | 0x40)), 0};
  const uint32_t upper = (bits + 0x8000) >> 16;
  return {bf16::from_bits(static_cast<uint16_t>(upper)),
          static_cast<int16_t>(static_cast<int32_t>(bits - (upper << 16)))};
}

// The number that was split. A rest of another number, as after a write of the bf16 number alone,
// changes `nearest` by at most half a unit in its last place: it never makes a number infinite or
// NaN, and never changes its sign.
BINADE_HD constexpr float join(bf16 nearest, int16_t rest) {
  constexpr int32_t infinity = 0x7f800000;
  const int32_t upper = static_cast<int32_t>(nearest.bits & 0x7fff) << 16;
  const int32_t added = upper >= infinity && rest > 0 ? 0 : rest;
  const int32_t magnitude = upper + added < 0 ? 0 : upper + added;
  return float_from_bits(static_cast<uint32_t>(nearest.bits & 0x8000) << 16 |
                         static_cast<uint32_t>(magnitude));
}

}  // namespace binade::formats
