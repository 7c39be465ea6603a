#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "binade/backend/quantize.h"
#include "binade/formats/codes.h"

// How scales follow from magnitudes: shared by the backends so that they agree bit for bit.
namespace binade::backend {

inline constexpr int64_t mx_group = 32;  // fixed by the OCP MX specification

inline float max_of(DType dtype) {
  return static_cast<float>(dtype == DType::e4m3 ? formats::spec::e4m3.max()
                                                 : formats::spec::e5m2.max());
}

inline int max_exponent_of(DType dtype) {
  return dtype == DType::e4m3 ? formats::spec::e4m3.max_exponent()
                              : formats::spec::e5m2.max_exponent();
}

// False for infinities and NaN.
BINADE_HD inline bool finite(float x) { return x - x == 0; }

// The larger magnitude; NaN if one is NaN.
BINADE_HD inline float larger(float amax, float value) {
  const float magnitude = value < 0 ? -value : value;
  return amax != amax || magnitude <= amax ? amax : magnitude;
}

// Drops a non-finite amax.
BINADE_HD inline void settle_amax(float& amax, int32_t& dropped) {
  if (finite(amax)) return;
  amax = 0;
  ++dropped;
}

// The largest power of two up to x, which is positive. Denormals, which have no exponent bits, stay
// as they are.
BINADE_HD inline float power_of_two_below(float x) {
  constexpr uint32_t exponent_bits = 0xFF800000u;
  const uint32_t bits = formats::float_bits(x) & exponent_bits;
  return bits == 0 ? x : formats::float_from_bits(bits);
}

// The scale of a group in quantize_groups.
BINADE_HD inline float scale_for(float amax, float max_value, ScaleRule rule) {
  if (amax == 0 || !finite(amax)) return 1;
  const float eps = static_cast<float>(rule.eps);
  float scale = max_value / (amax < eps ? eps : amax);
  if (!finite(scale)) scale = std::numeric_limits<float>::max();
  return rule.power_of_two ? power_of_two_below(scale) : scale;
}

// The next scale of a stream in roll.
BINADE_HD inline float delayed_scale(float amax, float max_value, DelayedRule rule) {
  float next = std::ldexp(max_value / amax, -rule.margin);
  if (!finite(next)) next = std::numeric_limits<float>::max();
  return rule.power_of_two ? power_of_two_below(next) : next;
}

// The scale of an MX group: the e8m0 code of scale_inv, and the scale as two factors, because
// 2^-exponent may exceed the range of f32.
struct MxScale {
  uint8_t code;
  float first, second;

  BINADE_HD float apply(float x) const {
    return code == 255 ? std::numeric_limits<float>::quiet_NaN() : x * first * second;
  }
};

// floor(log2(x)) of a positive number, by its bits where they say it.
BINADE_HD inline int exponent_below(float x) {
  const uint32_t field = formats::float_bits(x) >> 23;
  return field != 0 ? static_cast<int>(field) - 127 : std::ilogb(x);
}

// 2^exponent, from -126 to 127.
BINADE_HD inline float normal_power_of_two(int exponent) {
  return formats::float_from_bits(static_cast<uint32_t>(exponent + 127) << 23);
}

// The scale 2^exponent of a group.
BINADE_HD inline MxScale mx_scale_of(int exponent) {
  if (exponent < -127) exponent = -127;
  const int half = -exponent / 2;  // neither factor is subnormal
  return {static_cast<uint8_t>(exponent + 127), normal_power_of_two(half),
          normal_power_of_two(-exponent - half)};
}

BINADE_HD inline MxScale mx_scale(float amax, int max_exponent) {
  if (!finite(amax)) return {255, 0, 0};
  return mx_scale_of(amax == 0 ? -127 : exponent_below(amax) - max_exponent);
}

// The exponent of the smallest power of two that is not below x, which is positive.
inline int exponent_above(float x) {
  const uint32_t bits = formats::float_bits(x), field = bits >> 23;
  const bool is_power = field != 0 ? (bits & 0x7FFFFF) == 0 : (bits & (bits - 1)) == 0;
  return exponent_below(x) + (is_power ? 0 : 1);
}

// The exponent of an MX group's scale_inv by the other rules. `mx_round_up` multiplies by 1 / max
// in f32, as NVIDIA's kernels do; both have the smallest scale for amax 0.
inline int mx_ceil_exponent(float amax, int max_exponent) {
  return amax == 0 ? -127 : exponent_above(amax) - max_exponent;
}
inline int mx_round_up_exponent(float amax, float max_value) {
  const float scaled = amax * (1 / max_value);
  return scaled == 0 ? -127 : exponent_above(scaled);
}

// The scales of NVFP4, by Transformer Engine's formulas in f32. Of the tensor: its largest number
// becomes the largest code times the largest scale.
struct NvTensorScale {
  float scale, scale_inv;
};

// `largest` is the number that the tensor's largest one becomes, before scales of groups.
inline NvTensorScale nv_tensor_scale(float amax, float largest) {
  const float scale = scale_for(amax, largest, {});
  return {scale, 1 / scale};
}

// The value of a stored scale_inv.
BINADE_HD inline float scale_inv_value(float scale_inv) { return scale_inv; }
BINADE_HD inline float scale_inv_value(uint8_t code) {
  return formats::decode<formats::spec::e8m0>(code);
}

}  // namespace binade::backend
