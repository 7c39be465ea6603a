#include "binade/formats/weights/base_format.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "binade/base/error.h"
#include "binade/base/parallel.h"
#include "binade/formats/number.h"

namespace binade::formats {
namespace {

constexpr int64_t nf4_elements = 64, fp8_elements = 128, scale_bytes = sizeof(float);

// The levels below the value's, by halves of those that are left.
uint8_t nf4_code(float value) {
  int code = 0;
  for (int step = 8; step > 0; step /= 2) {
    const int next = code + step;
    if (value > (nf4_levels[next - 1] + nf4_levels[next]) / 2) code = next;
  }
  return static_cast<uint8_t>(code);
}

bool quantize_nf4(const float* values, uint8_t* block) {
  float amax = 0;
  for (int64_t i = 0; i < nf4_elements; ++i) {
    if (!std::isfinite(values[i])) return false;
    amax = std::max(amax, std::abs(values[i]));
  }
  std::memcpy(block, &amax, sizeof amax);
  const auto code_of = [&](float value) { return nf4_code(amax > 0 ? value / amax : 0.0F); };
  for (int64_t i = 0; i < nf4_elements; i += 2)
    block[scale_bytes + i / 2] =
        static_cast<uint8_t>(code_of(values[i]) << 4 | code_of(values[i + 1]));
  return true;
}

void dequantize_nf4(const uint8_t* block, float* values) {
  float amax = 0;
  std::memcpy(&amax, block, sizeof amax);
  for (int64_t i = 0; i < nf4_elements; i += 2) {
    const uint8_t codes = block[scale_bytes + i / 2];
    values[i] = nf4_levels[codes >> 4] * amax;
    values[i + 1] = nf4_levels[codes & 15] * amax;
  }
}

void dequantize_fp8(const uint8_t* block, float* values) {
  float scale = 0;
  std::memcpy(&scale, block, sizeof scale);
  for (int64_t i = 0; i < fp8_elements; ++i)
    values[i] = static_cast<float>(e4m3::from_bits(block[scale_bytes + i])) * scale;
}

const WeightFormat& fp8_weights() {
  static const WeightFormat& format = *find_weight_format("fp8-block");
  return format;
}

void encode_fp8(const WeightRows& weight, uint8_t* blocks) {
  const WeightFormat& format = fp8_weights();
  const GroupedWeight coded = encode_weight(format, weight);
  const int64_t groups = weight.columns / fp8_elements;
  parallel_for(weight.rows, 8, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * groups; i < end * groups; ++i) {
      const int64_t row = i / groups;
      const float scale =
          coded.scales[static_cast<size_t>(row / format.group_rows * groups + i % groups)];
      uint8_t* block = blocks + i * fp8_block.bytes;
      std::memcpy(block, &scale, sizeof scale);
      std::memcpy(block + scale_bytes, coded.codes.data() + i * fp8_elements, fp8_elements);
    }
  });
}

const BlockFormat* const base_table[] = {find_block_format("q4_0"), find_block_format("q4_k"),
                                         find_block_format("q8_0"), &nf4, &fp8_block};

void check_sizes(const BlockFormat& format, const WeightRows& weight, size_t bytes) {
  if (weight.columns % format.elements == 0 &&
      bytes == static_cast<size_t>(weight.rows * format.bytes_of(weight.columns)))
    return;
  fail("base format",
       {.argument = std::string(format.name),
        .expected = "rows of a multiple of " + std::to_string(format.elements) + " elements",
        .found = std::to_string(weight.columns) + " elements and " + std::to_string(bytes) +
                 " bytes of " + std::to_string(weight.rows) + " rows"});
}

void check_finite(const BlockFormat& format, const WeightRows& weight) {
  for (int64_t i = 0; i < weight.rows * weight.columns; ++i) {
    if (std::isfinite(weight.values[i])) continue;
    fail("base format", {.argument = std::string(format.name),
                         .expected = "finite weights",
                         .found = std::to_string(weight.values[i]) + " in row " +
                                  std::to_string(i / weight.columns)});
  }
}

}  // namespace

const BlockFormat nf4{"nf4",        nf4_type,      nf4_elements, scale_bytes + nf4_elements / 2,
                      quantize_nf4, dequantize_nf4};
const BlockFormat fp8_block{"fp8-block", fp8_block_type, fp8_elements, scale_bytes + fp8_elements,
                            nullptr,     dequantize_fp8};

const BlockFormat* find_base_format(std::string_view name) {
  for (const BlockFormat* format : base_table) {
    if (format->name == name) return format;
  }
  return nullptr;
}

std::string base_format_names() {
  std::string names;
  for (const BlockFormat* format : base_table)
    names += (names.empty() ? "" : ", ") + std::string(format->name);
  return names;
}

void encode_base(const BlockFormat& format, const WeightRows& weight, std::span<std::byte> blocks) {
  check_sizes(format, weight, blocks.size());
  check_finite(format, weight);
  auto* bytes = reinterpret_cast<uint8_t*>(blocks.data());
  if (&format == &fp8_block) return encode_fp8(weight, bytes);
  const int64_t across = weight.columns / format.elements;
  std::atomic<int64_t> refused = -1;  // a block
  parallel_for(weight.rows * across, 32, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (!format.quantize(weight.values + i * format.elements, bytes + i * format.bytes))
        refused = i;
    }
  });
  if (refused >= 0)
    fail("base format", {.argument = std::string(format.name),
                         .expected = "weights whose scales are within the range of f16",
                         .found = "larger ones in row " + std::to_string(refused / across)});
}

}  // namespace binade::formats
