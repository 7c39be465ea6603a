#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "binade/formats/blocks/block_format.h"

// Formats of weights in files for programs that run models: codes of 4 to 8 bits, and scales of
// groups of elements. Rounding a weight to a format and writing it share one quantizer, so a model
// that is trained on rounded weights sees the values that its file will hold.
namespace binade::formats {

// Codes and scales that a file keeps apart (the compressed-tensors package). Arithmetic is in f32.
struct GroupCodec {
  int bits;  // of a code
  // The scale of the whole tensor, from its largest magnitude. Null: none, which reads as 1.
  float (*tensor_scale)(float amax);
  // The scale of a group, as the file holds it.
  float (*group_scale)(float amax, float tensor_scale);
  // Codes of a part of a group, one a byte, and their values.
  void (*encode)(std::span<const float> values, float scale, float tensor_scale, uint8_t* codes);
  void (*decode)(std::span<const uint8_t> codes, float scale, float tensor_scale, float* values);
};

struct WeightFormat {
  std::string_view name;     // "int4-g128"
  std::string_view program;  // that its files are for
  // The elements that share a scale. A row is a whole number of groups; the last rows may be less.
  int64_t group_rows, group_columns;
  const BlockFormat* block;  // of a GGUF file, or null
  const GroupCodec* groups;  // of a compressed-tensors file, or null
};

// q4_0, q8_0 and the other GGUF types that are written, int4-g128, nvfp4, fp8-block.
std::span<const WeightFormat> weight_formats();
// Null if there is none.
const WeightFormat* find_weight_format(std::string_view name);
// For messages: "q4_0, q8_0, ...".
std::string weight_format_names();

// Dense rows of a weight.
struct WeightRows {
  const float* values;
  int64_t rows, columns;
};

// A weight by a format with `groups`: one byte a code, row by row, and one scale a group, row by
// row of groups.
struct GroupedWeight {
  std::vector<uint8_t> codes;
  std::vector<float> scales;
  float tensor_scale = 1;
};

// Fails unless the columns are whole groups. A weight with a value that is not finite has no
// meaning in a file: check before.
GroupedWeight encode_weight(const WeightFormat& format, const WeightRows& weight);
void decode_weight(const WeightFormat& format, const GroupedWeight& weight, int64_t rows,
                   int64_t columns, float* values);

// The values that the format's file holds for a weight. Groups that cannot be coded, with an
// infinity or a NaN, become NaN; all do if they share the tensor's scale.
void round_weight(const WeightFormat& format, const WeightRows& weight, float* values);

}  // namespace binade::formats
