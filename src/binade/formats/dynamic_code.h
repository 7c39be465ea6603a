#pragma once

#include <cstdint>
#include <span>

// The dynamic 8-bit code of Dettmers et al., "8-bit Optimizers via Block-wise Quantization" (2022):
// each block of values is divided by its largest magnitude, and each quotient is stored as the
// index of the nearest of 256 numbers. The numbers are spread over seven decades, with more of them
// in the larger decades; they are those of bitsandbytes.
namespace binade::formats {

// Values that share a scale; bitsandbytes' block of optimizer states.
inline constexpr int64_t dynamic_block = 256;

// Whether values have both signs, such as a first moment, or are never negative.
enum class DynamicSign : uint8_t { either, positive };

// The 256 numbers in ascending order.
std::span<const float, 256> dynamic_codes(DynamicSign sign);

// Quantized values, whose blocks start at codes[0].
struct DynamicBlocks {
  uint8_t* codes;
  float* scales;  // one per block: the largest magnitude
  DynamicSign sign;
};

// Quantizes n values. With DynamicSign::positive a value above zero never becomes zero, so that a
// quotient by its root stays bounded. A block with a non-finite value decodes to NaN.
void encode_dynamic(const float* values, int64_t n, const DynamicBlocks& to);
void decode_dynamic(const DynamicBlocks& from, float* values, int64_t n);

}  // namespace binade::formats
