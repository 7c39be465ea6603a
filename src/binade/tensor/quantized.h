#pragma once

#include <optional>

#include "binade/formats/format.h"
#include "binade/tensor/tensor.h"

namespace binade {

// The elements of a matrix that share one scale: groups of `rows` x `columns`; 0 means all.
// {0, 0}: one scale per tensor; {1, 0}: one per row; {1, 128} and {128, 128}: blocks; {1, 32}: MX.
struct ScaleGroup {
  int64_t rows = 0;
  int64_t columns = 0;
  bool operator==(const ScaleGroup&) const = default;
};

// The shape of the scales of a matrix [rows, columns].
Shape scale_shape(const Shape& matrix, ScaleGroup group);
// The group with the matrix's own sizes in place of 0.
ScaleGroup sized_group(const Shape& matrix, ScaleGroup group);

// How numbers of a format are stored: in a type of their own if tensors have one (TF32 in f32),
// else as codes in bytes, u8. Two codes of up to 4 bits share a byte, the first of them in its low
// half; each row starts at a byte.
DType stored_type(const formats::Format& format);
Shape stored_shape(const Shape& matrix, const formats::Format& format);
// The format of a floating type.
const formats::Format& format_of(DType dtype);

struct QuantizedLayout {
  formats::Format format = formats::spec::e4m3;  // of the data
  ScaleGroup group = {};
  formats::Format scale = formats::spec::f32;  // of a group's scale
  // Groups of a second level of scales, in f32, if there is one.
  std::optional<ScaleGroup> outer = {};

  bool operator==(const QuantizedLayout&) const = default;
};

// A quantized matrix: data together with its scales;
// value = data * scale_inv of its group * outer_inv of its outer group.
//
// Rows can be viewed (quantized_rows). Columns of codes in bytes cannot, and neither can a
// transpose: `transposed` is a copy with rows and columns exchanged.
struct Quantized {
  QuantizedLayout layout;
  Shape shape;             // of the matrix, [rows, columns]
  Tensor data;             // stored_shape(shape, layout.format), dense rows
  Tensor scale_inv;        // scale_shape(shape, layout.group)
  Tensor outer_inv = {};   // scale_shape(shape, *layout.outer)
  Tensor transposed = {};  // optional: the same data as [columns, rows], dense

  bool defined() const { return data.defined(); }
  // Of data and scales.
  int64_t bytes() const;
};

// Uninitialized data and scales.
Quantized empty_quantized(const Shape& matrix, const QuantizedLayout& layout, Device device);
// Data in a type of its own, with one level of scales: f32, or e8m0 in u8.
Quantized quantized_of(const Tensor& data, const Tensor& scale_inv, ScaleGroup group = {});
// Fails, naming the part, unless types and shapes are those that the layout says.
void check_quantized(const Quantized& q);
// A view of rows [begin, begin + count), without the transposed data. A range that starts or ends
// inside of a group is refused.
Quantized quantized_rows(const Quantized& q, int64_t begin, int64_t count);

}  // namespace binade
