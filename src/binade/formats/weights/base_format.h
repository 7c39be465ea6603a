#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "binade/formats/blocks/block_format.h"
#include "binade/formats/weights/weight_format.h"

// Formats of a weight that stays in few bits in memory while adapters over it are trained. All lie
// in memory as GGUF's do: each row in blocks of its own, which hold their scales.
namespace binade::formats {

// Numbers of formats that GGUF files do not have.
inline constexpr int32_t nf4_type = -1, fp8_block_type = -2;

// The 16 values of a NormalFloat (QLoRA, Dettmers et al., 2023): means of neighboring quantiles of
// the normal distribution, scaled to [-1, 1], with an exact 0. Those of bitsandbytes.
inline constexpr float nf4_levels[16] = {
    -1.0F,
    -0.6961928009986877F,
    -0.5250730514526367F,
    -0.39491748809814453F,
    -0.28444138169288635F,
    -0.18477343022823334F,
    -0.09105003625154495F,
    0.0F,
    0.07958029955625534F,
    0.16093020141124725F,
    0.24611230194568634F,
    0.33791524171829224F,
    0.44070982933044434F,
    0.5626170039176941F,
    0.7229568362236023F,
    1.0F,
};

// Of 64 elements: the largest magnitude (f32), then codes of 4 bits, the even element in the high
// half. A code is that of the level nearest to value / magnitude; a tie goes to the lower one.
extern const BlockFormat nf4;
// Of 128 elements: the scale (f32), then e4m3 codes. 128 rows share a scale, and each has a copy:
// the codes and scales of the weight format fp8-block. A block alone cannot be quantized.
extern const BlockFormat fp8_block;

// q4_0, q4_k, q8_0, nf4, fp8-block. Null if there is none.
const BlockFormat* find_base_format(std::string_view name);
// For messages: "q4_0, q4_k, ...".
std::string base_format_names();

// Codes a weight, whose columns are whole blocks, row by row. Fails, naming the row, for a value
// that is not finite or a scale that the format cannot hold.
void encode_base(const BlockFormat& format, const WeightRows& weight, std::span<std::byte> blocks);

}  // namespace binade::formats
