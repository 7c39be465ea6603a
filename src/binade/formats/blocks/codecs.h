#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "binade/formats/number.h"

// The codecs of one block each, as BlockFormat has them. Not part of the public interface.
namespace binade::formats::blocks {

inline float load_f16(const uint8_t* bytes) {
  uint16_t bits = 0;
  std::memcpy(&bits, bytes, sizeof bits);
  return f16::from_bits(bits);
}

// Returns whether the number is finite in f16.
inline bool store_f16(float value, uint8_t* bytes) {
  const f16 rounded(value);
  std::memcpy(bytes, &rounded.bits, sizeof rounded.bits);
  return std::isfinite(static_cast<float>(rounded));
}

bool quantize_q4_0(const float* values, uint8_t* block);
void dequantize_q4_0(const uint8_t* block, float* values);
void dequantize_q4_1(const uint8_t* block, float* values);
void dequantize_q5_0(const uint8_t* block, float* values);
void dequantize_q5_1(const uint8_t* block, float* values);
bool quantize_q8_0(const float* values, uint8_t* block);
void dequantize_q8_0(const uint8_t* block, float* values);
bool quantize_mxfp4(const float* values, uint8_t* block);
void dequantize_mxfp4(const uint8_t* block, float* values);

bool quantize_q4_k(const float* values, uint8_t* block);
void dequantize_q4_k(const uint8_t* block, float* values);
void dequantize_q5_k(const uint8_t* block, float* values);
bool quantize_q6_k(const float* values, uint8_t* block);
void dequantize_q6_k(const uint8_t* block, float* values);

}  // namespace binade::formats::blocks
