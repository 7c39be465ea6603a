#include "binade/formats/weights/weight_format.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "binade/base/division.h"
#include "binade/base/error.h"
#include "binade/base/parallel.h"
#include "binade/formats/weights/group_codecs.h"

namespace binade::formats {
namespace {

constexpr std::string_view gguf = "llama.cpp (GGUF)", compressed = "vLLM (compressed-tensors)";

std::vector<WeightFormat> all_weight_formats() {
  std::vector<WeightFormat> all;
  for (const BlockFormat& block : block_formats()) {
    if (block.quantize != nullptr)
      all.push_back({block.name, gguf, 1, block.elements, &block, nullptr});
  }
  all.push_back({"int4-g128", compressed, 1, 128, nullptr, &weights::int4});
  all.push_back({"nvfp4", compressed, 1, 16, nullptr, &weights::nvfp4});
  all.push_back({"fp8-block", compressed, 128, 128, nullptr, &weights::fp8});
  return all;
}

void check_columns(const WeightFormat& format, int64_t columns) {
  if (columns % format.group_columns == 0) return;
  fail("weight format",
       {.argument = std::string(format.name),
        .expected = "rows of a multiple of " + std::to_string(format.group_columns) + " elements",
        .found = std::to_string(columns)});
}

// The largest magnitude, or `amax` if that is larger. NaN if any of them is.
float amax_of(const float* values, int64_t count, float amax = 0) {
  for (int64_t i = 0; i < count && !std::isnan(amax); ++i) {
    const float magnitude = std::abs(values[i]);
    if (!(magnitude <= amax)) amax = magnitude;
  }
  return amax;
}

float tensor_scale_of(const GroupCodec& codec, const WeightRows& weight) {
  if (codec.tensor_scale == nullptr) return 1;
  std::vector<float> rows(static_cast<size_t>(weight.rows));
  parallel_for(weight.rows, 8, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      rows[static_cast<size_t>(row)] =
          amax_of(weight.values + row * weight.columns, weight.columns);
  });
  const float amax = amax_of(rows.data(), weight.rows);
  // The codec takes an infinity for a reason to do without.
  return std::isfinite(amax) ? codec.tensor_scale(amax) : amax - amax;
}

// The rows that share scales: `count` of them from `begin` on.
struct Band {
  const WeightFormat& format;
  int64_t begin, count, columns;
  float tensor_scale;

  int64_t groups() const { return columns / format.group_columns; }

  // `values` and `codes` are the band's own.
  void encode(const float* values, uint8_t* codes, float* scales) const {
    for (int64_t group = 0; group < groups(); ++group) {
      const int64_t first = group * format.group_columns;
      float amax = 0;
      for (int64_t row = 0; row < count; ++row)
        amax = amax_of(values + row * columns + first, format.group_columns, amax);
      const bool is_finite = std::isfinite(amax) && std::isfinite(tensor_scale);
      const float scale = is_finite ? format.groups->group_scale(amax, tensor_scale)
                                    : std::numeric_limits<float>::quiet_NaN();
      scales[group] = scale;
      for (int64_t row = 0; row < count && is_finite; ++row)
        format.groups->encode({values + row * columns + first, width()}, scale, tensor_scale,
                              codes + row * columns + first);
    }
  }
  void decode(const uint8_t* codes, const float* scales, float* values) const {
    for (int64_t group = 0; group < groups(); ++group) {
      const int64_t first = group * format.group_columns;
      for (int64_t row = 0; row < count; ++row)
        format.groups->decode({codes + row * columns + first, width()}, scales[group], tensor_scale,
                              values + row * columns + first);
    }
  }

 private:
  size_t width() const { return static_cast<size_t>(format.group_columns); }
};

// Calls use(band, index) for all bands, on several threads.
template <class Use>
void for_each_band(const WeightFormat& format, int64_t rows, int64_t columns, float tensor_scale,
                   const Use& use) {
  check_columns(format, columns);
  const int64_t height = format.group_rows;
  parallel_for(divide_up(rows, height), divide_up(8, height), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      use(Band{format, i * height, std::min(height, rows - i * height), columns, tensor_scale}, i);
  });
}

void round_groups(const WeightFormat& format, const WeightRows& weight, float* values) {
  const float tensor_scale = tensor_scale_of(*format.groups, weight);
  for_each_band(format, weight.rows, weight.columns, tensor_scale, [&](const Band& band, int64_t) {
    std::vector<uint8_t> codes(static_cast<size_t>(band.count * band.columns));
    std::vector<float> scales(static_cast<size_t>(band.groups()));
    const int64_t first = band.begin * band.columns;
    band.encode(weight.values + first, codes.data(), scales.data());
    band.decode(codes.data(), scales.data(), values + first);
  });
}

void round_blocks(const BlockFormat& format, const WeightRows& weight, float* values) {
  parallel_for(weight.rows * weight.columns / format.elements, 32, [&](int64_t begin, int64_t end) {
    std::vector<uint8_t> block(static_cast<size_t>(format.bytes));
    for (int64_t i = begin; i < end; ++i) {
      float* out = values + i * format.elements;
      if (format.quantize(weight.values + i * format.elements, block.data())) {
        format.dequantize(block.data(), out);
      } else {
        std::fill(out, out + format.elements, std::numeric_limits<float>::quiet_NaN());
      }
    }
  });
}

}  // namespace

std::span<const WeightFormat> weight_formats() {
  static const std::vector<WeightFormat> all = all_weight_formats();
  return all;
}

const WeightFormat* find_weight_format(std::string_view name) {
  for (const WeightFormat& format : weight_formats()) {
    if (format.name == name) return &format;
  }
  return nullptr;
}

std::string weight_format_names() {
  std::string names;
  for (const WeightFormat& format : weight_formats())
    names += (names.empty() ? "" : ", ") + std::string(format.name);
  return names;
}

GroupedWeight encode_weight(const WeightFormat& format, const WeightRows& weight) {
  check_columns(format, weight.columns);
  const int64_t bands = divide_up(weight.rows, format.group_rows),
                groups = weight.columns / format.group_columns;
  GroupedWeight result{
      .codes = std::vector<uint8_t>(static_cast<size_t>(weight.rows * weight.columns)),
      .scales = std::vector<float>(static_cast<size_t>(bands * groups)),
      .tensor_scale = tensor_scale_of(*format.groups, weight)};
  for_each_band(format, weight.rows, weight.columns, result.tensor_scale,
                [&](const Band& band, int64_t index) {
                  const int64_t first = band.begin * band.columns;
                  band.encode(weight.values + first, result.codes.data() + first,
                              result.scales.data() + index * groups);
                });
  return result;
}

void decode_weight(const WeightFormat& format, const GroupedWeight& weight, int64_t rows,
                   int64_t columns, float* values) {
  for_each_band(format, rows, columns, weight.tensor_scale, [&](const Band& band, int64_t index) {
    const int64_t first = band.begin * band.columns;
    band.decode(weight.codes.data() + first, weight.scales.data() + index * band.groups(),
                values + first);
  });
}

void round_weight(const WeightFormat& format, const WeightRows& weight, float* values) {
  check_columns(format, weight.columns);
  if (format.block != nullptr) return round_blocks(*format.block, weight, values);
  round_groups(format, weight, values);
}

}  // namespace binade::formats
