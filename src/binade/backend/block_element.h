#pragma once

#include <cstdint>

#include "binade/base/host_device.h"
#include "binade/formats/number.h"
#include "binade/formats/weights/base_format.h"

// Elements of blocks one at a time, as GPU threads decode them. The formats' own functions
// (BlockFormat::dequantize) are the definition.
namespace binade::backend {

// Products that no compiler fuses with an addition.
BINADE_HD inline float product(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

BINADE_HD inline float half_at(const uint8_t* bytes) {
  return f16::from_bits(static_cast<uint16_t>(bytes[0] | bytes[1] << 8));
}

BINADE_HD inline uint32_t bits_at(const uint8_t* bytes) {
  return uint32_t{bytes[0]} | uint32_t{bytes[1]} << 8 | uint32_t{bytes[2]} << 16 |
         uint32_t{bytes[3]} << 24;
}

BINADE_HD inline float float_at(const uint8_t* bytes) {
  return formats::float_from_bits(bits_at(bytes));
}

// Of 32 codes of 4 bits, the first half of them in the low halves of the bytes.
BINADE_HD inline int half_code(const uint8_t* bytes, int i) {
  return i < 16 ? bytes[i] & 15 : bytes[i - 16] >> 4;
}

// As half_code(), with a fifth bit from the word before.
BINADE_HD inline int five_bit_code(const uint8_t* bytes, int i) {
  return half_code(bytes + 4, i) | static_cast<int>(bits_at(bytes) >> i & 1U) << 4;
}

BINADE_HD inline float mxfp4_element(const uint8_t* block, int i) {
  const int code = half_code(block + 1, i), e = code >> 1 & 3, m = code & 1;
  // Twice the magnitude, an integer, times half of the scale.
  const int doubled = e == 0 ? m : (2 + m) << (e - 1);
  const uint32_t half_scale =
      block[0] < 2 ? 0x00200000U << block[0] : static_cast<uint32_t>(block[0] - 1) << 23;
  const float magnitude =
      product(static_cast<float>(doubled), formats::float_from_bits(half_scale));
  return code > 8 ? -magnitude : magnitude;
}

// Of q4_k and q5_k: the scale and the minimum of sub-block b, as codes of 6 bits.
BINADE_HD inline int k_scale(const uint8_t* q, int b) {
  return b < 4 ? q[b] & 63 : (q[b + 4] & 15) | q[b - 4] >> 6 << 4;
}
BINADE_HD inline int k_minimum(const uint8_t* q, int b) {
  return b < 4 ? q[b + 4] & 63 : q[b + 4] >> 4 | q[b] >> 6 << 4;
}

// `codes`: where those of 4 bits begin.
BINADE_HD inline float k_element(const uint8_t* block, const uint8_t* codes, int fifth, int i) {
  const int b = i / 32, j = i % 32;
  const uint8_t byte = codes[32 * (b / 2) + j];
  const int code = (b % 2 == 0 ? byte & 15 : byte >> 4) | fifth << 4;
  const float scale = product(half_at(block), static_cast<float>(k_scale(block + 4, b))),
              minimum = product(half_at(block + 2), static_cast<float>(k_minimum(block + 4, b)));
  return product(scale, static_cast<float>(code)) - minimum;
}

BINADE_HD inline float q6_k_element(const uint8_t* block, int i) {
  const int part = i / 128, l = i % 128;
  const int low = block[64 * part + l % 64] >> (l / 64 * 4) & 15,
            high = block[128 + 32 * part + l % 32] >> (l / 32 * 2) & 3;
  const auto scale = static_cast<int8_t>(block[192 + i / 16]);
  return product(product(half_at(block + 208), static_cast<float>(scale)),
                 static_cast<float>((low | high << 4) - 32));
}

BINADE_HD inline float nf4_element(const uint8_t* block, int i) {
  constexpr float levels[16] = {
      formats::nf4_levels[0],  formats::nf4_levels[1],  formats::nf4_levels[2],
      formats::nf4_levels[3],  formats::nf4_levels[4],  formats::nf4_levels[5],
      formats::nf4_levels[6],  formats::nf4_levels[7],  formats::nf4_levels[8],
      formats::nf4_levels[9],  formats::nf4_levels[10], formats::nf4_levels[11],
      formats::nf4_levels[12], formats::nf4_levels[13], formats::nf4_levels[14],
      formats::nf4_levels[15]};
  const uint8_t codes = block[4 + i / 2];
  return product(levels[i % 2 == 0 ? codes >> 4 : codes & 15], float_at(block));
}

// Element i of a block of the format with this number (BlockFormat::ggml_type).
BINADE_HD inline float block_element(int32_t type, const uint8_t* block, int i) {
  const float scale = half_at(block);
  switch (type) {
    case 2:  // q4_0
      return product(static_cast<float>(half_code(block + 2, i) - 8), scale);
    case 3:  // q4_1
      return product(static_cast<float>(half_code(block + 4, i)), scale) + half_at(block + 2);
    case 6:  // q5_0
      return product(static_cast<float>(five_bit_code(block + 2, i) - 16), scale);
    case 7:  // q5_1
      return product(static_cast<float>(five_bit_code(block + 4, i)), scale) + half_at(block + 2);
    case 8:  // q8_0
      return product(static_cast<float>(static_cast<int8_t>(block[2 + i])), scale);
    case 12:  // q4_k
      return k_element(block, block + 16, 0, i);
    case 13:  // q5_k
      return k_element(block, block + 48, block[16 + i % 32] >> (i / 32) & 1, i);
    case 14:
      return q6_k_element(block, i);
    case 39:
      return mxfp4_element(block, i);
    case formats::nf4_type:
      return nf4_element(block, i);
    default:  // formats::fp8_block_type
      return product(static_cast<float>(e4m3::from_bits(block[4 + i])), float_at(block));
  }
}

}  // namespace binade::backend
