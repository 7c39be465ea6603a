#include "binade/formats/blocks/block_format.h"

#include <algorithm>
#include <string>

#include "binade/base/error.h"
#include "binade/formats/blocks/codecs.h"

namespace binade::formats {
namespace {

using namespace blocks;

constexpr BlockFormat block_table[] = {
    {"q4_0", 2, 32, 18, quantize_q4_0, dequantize_q4_0},
    {"q4_1", 3, 32, 20, nullptr, dequantize_q4_1},
    {"q5_0", 6, 32, 22, nullptr, dequantize_q5_0},
    {"q5_1", 7, 32, 24, nullptr, dequantize_q5_1},
    {"q8_0", 8, 32, 34, quantize_q8_0, dequantize_q8_0},
    {"q4_k", 12, 256, 144, quantize_q4_k, dequantize_q4_k},
    {"q5_k", 13, 256, 176, nullptr, dequantize_q5_k},
    {"q6_k", 14, 256, 210, quantize_q6_k, dequantize_q6_k},
    {"mxfp4", 39, 32, 17, quantize_mxfp4, dequantize_mxfp4},
};

template <class Matches>
const BlockFormat* find_if_matches(const Matches& matches) {
  const auto* found = std::find_if(std::begin(block_table), std::end(block_table), matches);
  return found == std::end(block_table) ? nullptr : found;
}

// The number of blocks. Fails unless both sides have as many.
int64_t count_blocks(const char* op, const BlockFormat& format, size_t values, size_t bytes) {
  const int64_t count = static_cast<int64_t>(values) / format.elements;
  if (values != static_cast<size_t>(count * format.elements) ||
      bytes != static_cast<size_t>(count * format.bytes)) {
    fail(op, {.argument = std::string(format.name),
              .expected = "blocks of " + std::to_string(format.elements) + " values in " +
                          std::to_string(format.bytes) + " bytes",
              .found = std::to_string(values) + " values and " + std::to_string(bytes) + " bytes"});
  }
  return count;
}

}  // namespace

std::span<const BlockFormat> block_formats() { return block_table; }

const BlockFormat* find_block_format(std::string_view name) {
  return find_if_matches([&](const BlockFormat& format) { return format.name == name; });
}

const BlockFormat* find_block_format(int32_t ggml_type) {
  return find_if_matches([&](const BlockFormat& format) { return format.ggml_type == ggml_type; });
}

void quantize_blocks(const BlockFormat& format, std::span<const float> values,
                     std::span<std::byte> blocks) {
  const int64_t count = count_blocks("quantize_blocks", format, values.size(), blocks.size());
  auto* bytes = reinterpret_cast<uint8_t*>(blocks.data());
  if (format.quantize == nullptr && count > 0)
    fail("quantize_blocks", {.argument = "format",
                             .expected = "a format that is written",
                             .found = std::string(format.name) + ", which is only read"});
  for (int64_t i = 0; i < count; ++i) {
    const float* block = values.data() + i * format.elements;
    if (format.quantize(block, bytes + i * format.bytes)) continue;
    const float* end = block + format.elements;
    const bool finite = std::all_of(block, end, [](float x) { return std::isfinite(x); });
    fail("quantize_blocks",
         {.argument = "block " + std::to_string(i),
          .expected = finite ? "values whose scale in " + std::string(format.name) +
                                   " is within the range of f16"
                             : "finite values",
          .found = finite ? "one that is larger" : "an infinity or a NaN"});
  }
}

void dequantize_blocks(const BlockFormat& format, std::span<const std::byte> blocks,
                       std::span<float> values) {
  const int64_t count = count_blocks("dequantize_blocks", format, values.size(), blocks.size());
  const auto* bytes = reinterpret_cast<const uint8_t*>(blocks.data());
  for (int64_t i = 0; i < count; ++i)
    format.dequantize(bytes + i * format.bytes, values.data() + i * format.elements);
}

}  // namespace binade::formats
