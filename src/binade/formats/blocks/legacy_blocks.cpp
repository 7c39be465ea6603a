#include <algorithm>
#include <array>
#include <cmath>

#include "binade/formats/blocks/codecs.h"

// Blocks of 32 elements with one scale, or a scale and a minimum. A byte of 4-bit codes holds
// element j in its low half and element j + 16 in its high half.
namespace binade::formats::blocks {
namespace {

constexpr int count = 32, half = count / 2;

// The first element of the largest magnitude, with its sign. NaN if any element is one.
float signed_extreme(const float* values) {
  float extreme = 0;
  for (int j = 0; j < count; ++j) {
    if (std::isnan(values[j])) return values[j];
    if (std::abs(values[j]) > std::abs(extreme)) extreme = values[j];
  }
  return extreme;
}

// 1 / scale; 0 if the scale is 0 or too small to have an inverse: f16 holds such a scale as 0.
float inverse_of(float scale) {
  const float inverse = 1.0F / scale;
  return scale != 0 && std::isfinite(inverse) ? inverse : 0.0F;
}

void pack_halves(const std::array<uint8_t, count>& codes, uint8_t* bytes) {
  for (size_t j = 0; j < half; ++j)
    bytes[j] = static_cast<uint8_t>(codes[j] | codes[j + half] << 4U);
}

// Calls use(element, code) for the 4-bit codes of a block.
template <class Use>
void each_code(const uint8_t* bytes, const Use& use) {
  for (int j = 0; j < half; ++j) use(j, bytes[j] & 0x0F);
  for (int j = 0; j < half; ++j) use(j + half, bytes[j] >> 4);
}

// The fifth bit of element e is bit e of a word.
uint32_t load_fifth_bits(const uint8_t* bytes) {
  uint32_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

// Twice the magnitudes of e2m1.
constexpr std::array<float, 8> doubled_e2m1 = {0, 1, 2, 3, 4, 6, 8, 12};

// Half of the scale 2^(exponent - 127). The two smallest are subnormal in f32.
float half_scale(uint32_t exponent) {
  return std::bit_cast<float>(exponent < 2 ? 0x200000U << exponent : (exponent - 1) << 23U);
}

// The nearest magnitude's code; of two that are equally near, the smaller one.
uint8_t nearest_e2m1(float magnitude, float scale) {
  size_t best = 0;
  float best_error = magnitude;
  for (size_t code = 1; code < doubled_e2m1.size(); ++code) {
    const float error = std::abs(doubled_e2m1[code] * scale - magnitude);
    if (!(error < best_error)) continue;
    best = code;
    best_error = error;
  }
  return static_cast<uint8_t>(best);
}

}  // namespace

bool quantize_q4_0(const float* values, uint8_t* block) {
  const float scale = signed_extreme(values) / -8, inverse = inverse_of(scale);
  if (!store_f16(scale, block)) return false;
  std::array<uint8_t, count> codes;
  for (int j = 0; j < count; ++j)
    codes[static_cast<size_t>(j)] =
        static_cast<uint8_t>(std::min(15, static_cast<int>(values[j] * inverse + 8.5F)));
  pack_halves(codes, block + 2);
  return true;
}

void dequantize_q4_0(const uint8_t* block, float* values) {
  const float scale = load_f16(block);
  each_code(block + 2, [&](int j, int code) { values[j] = static_cast<float>(code - 8) * scale; });
}

void dequantize_q4_1(const uint8_t* block, float* values) {
  const float scale = load_f16(block), minimum = load_f16(block + 2);
  each_code(block + 4,
            [&](int j, int code) { values[j] = static_cast<float>(code) * scale + minimum; });
}

void dequantize_q5_0(const uint8_t* block, float* values) {
  const float scale = load_f16(block);
  const uint32_t fifth = load_fifth_bits(block + 2);
  each_code(block + 6, [&](int j, int low) {
    const int code = low | static_cast<int>(fifth >> j & 1U) << 4;
    values[j] = static_cast<float>(code - 16) * scale;
  });
}

void dequantize_q5_1(const uint8_t* block, float* values) {
  const float scale = load_f16(block), minimum = load_f16(block + 2);
  const uint32_t fifth = load_fifth_bits(block + 4);
  each_code(block + 8, [&](int j, int low) {
    const int code = low | static_cast<int>(fifth >> j & 1U) << 4;
    values[j] = static_cast<float>(code) * scale + minimum;
  });
}

bool quantize_q8_0(const float* values, uint8_t* block) {
  const float scale = std::abs(signed_extreme(values)) / 127, inverse = inverse_of(scale);
  if (!store_f16(scale, block)) return false;
  for (int j = 0; j < count; ++j)
    block[2 + j] = static_cast<uint8_t>(static_cast<int8_t>(std::round(values[j] * inverse)));
  return true;
}

void dequantize_q8_0(const uint8_t* block, float* values) {
  const float scale = load_f16(block);
  for (int j = 0; j < count; ++j)
    values[j] = static_cast<float>(static_cast<int8_t>(block[2 + j])) * scale;
}

// The largest magnitude falls in e2m1's last binade, so one above 6 times the scale saturates.
bool quantize_mxfp4(const float* values, uint8_t* block) {
  const float largest = std::abs(signed_extreme(values));
  if (!std::isfinite(largest)) return false;
  // As a logarithm in f32, which rounds numbers just below a power of two up to it.
  const auto binade = static_cast<float>(std::log2(static_cast<double>(largest)));
  const int exponent =
      largest > 0 ? std::max(0, static_cast<int>(std::floor(binade)) - 2 + 127) : 0;
  block[0] = static_cast<uint8_t>(exponent);
  const float scale = half_scale(block[0]);
  std::array<uint8_t, count> codes;
  for (int j = 0; j < count; ++j) {
    const uint8_t code = nearest_e2m1(std::abs(values[j]), scale);
    codes[static_cast<size_t>(j)] =
        code != 0 && values[j] < 0 ? static_cast<uint8_t>(code | 8U) : code;
  }
  pack_halves(codes, block + 1);
  return true;
}

void dequantize_mxfp4(const uint8_t* block, float* values) {
  const float scale = half_scale(block[0]);
  each_code(block + 1, [&](int j, int code) {
    const float magnitude = doubled_e2m1[static_cast<size_t>(code & 7)] * scale;
    values[j] = code > 8 ? -magnitude : magnitude;
  });
}

}  // namespace binade::formats::blocks
