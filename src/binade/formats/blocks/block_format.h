#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

// Block formats of GGUF files: a block of a row's elements shares one scale or a few, and is coded
// by itself. Codes and scales are those of ggml's reference quantizers, bit for bit where these do
// not fuse multiplications and additions; arithmetic is in f32.
namespace binade::formats {

struct BlockFormat {
  std::string_view name;  // "q4_0"
  int32_t ggml_type;      // its number in GGUF files
  int64_t elements;       // of a block
  int64_t bytes;          // of a block
  // Codes a block. False, with unspecified bytes, if a value is not finite or a scale is beyond
  // f16's range. Null: the format is only read.
  bool (*quantize)(const float* values, uint8_t* block);
  void (*dequantize)(const uint8_t* block, float* values);

  int64_t bytes_of(int64_t count) const { return count / elements * bytes; }
};

std::span<const BlockFormat> block_formats();

// Null if there is none.
const BlockFormat* find_block_format(std::string_view name);
const BlockFormat* find_block_format(int32_t ggml_type);

// Codes values, whole blocks of them, which take bytes_of(values.size()) bytes. Fails naming the
// first block that cannot be coded.
void quantize_blocks(const BlockFormat& format, std::span<const float> values,
                     std::span<std::byte> blocks);
// The values of whole blocks.
void dequantize_blocks(const BlockFormat& format, std::span<const std::byte> blocks,
                       std::span<float> values);

}  // namespace binade::formats
