#include "binade/tensor/quantized.h"

#include <fmt/format.h>

#include "binade/base/division.h"
#include "binade/base/error.h"
#include "binade/formats/codes.h"

namespace binade {
namespace {

constexpr std::pair<DType, const formats::Format*> types[] = {
    {DType::f32, &formats::spec::f32},   {DType::f32, &formats::spec::tf32},
    {DType::f16, &formats::spec::f16},   {DType::bf16, &formats::spec::bf16},
    {DType::e4m3, &formats::spec::e4m3}, {DType::e5m2, &formats::spec::e5m2}};

void require_part(const char* part, const Tensor& x, DType dtype, const Shape& shape) {
  if (x.defined() && x.dtype() == dtype && x.shape() == shape) return;
  fail("quantized", {.argument = part,
                     .expected = fmt::format("{} {}", to_string(shape), name(dtype)),
                     .found = x.defined() ? describe(x) : "none"});
}

// Rows of scales whose groups have `group_rows` rows of a matrix; all of them if these are shared.
Tensor scale_rows(const Tensor& scales, int64_t group_rows, int64_t begin, int64_t count) {
  if (group_rows == 0) return scales;
  const int64_t first = begin / group_rows;
  return scales.strided({divide_up(count, group_rows), scales.size(1)}, scales.strides(),
                        scales.offset() + first * scales.strides()[0]);
}

void require_whole_groups(const Quantized& q, ScaleGroup group, int64_t begin, int64_t count) {
  const int64_t end = begin + count;
  const bool whole =
      group.rows == 0 || (begin % group.rows == 0 && (end % group.rows == 0 || end == q.shape[0]));
  if (begin >= 0 && count >= 0 && end <= q.shape[0] && whole) return;
  fail("quantized_rows",
       {.argument = "rows",
        .expected = group.rows == 0
                        ? fmt::format("a range within 0 to {}", q.shape[0])
                        : fmt::format("whole groups of {} within 0 to {}", group.rows, q.shape[0]),
        .found = fmt::format("{} to {}", begin, end)});
}

}  // namespace

Shape scale_shape(const Shape& matrix, ScaleGroup group) {
  const auto groups = [](int64_t size, int64_t each) {
    return each == 0 ? int64_t{1} : divide_up(size, each);
  };
  return {groups(matrix[0], group.rows), groups(matrix[1], group.columns)};
}

ScaleGroup sized_group(const Shape& matrix, ScaleGroup group) {
  return {group.rows == 0 ? matrix[0] : group.rows, group.columns == 0 ? matrix[1] : group.columns};
}

DType stored_type(const formats::Format& format) {
  for (const auto& [dtype, own] : types) {
    if (*own == format) return dtype;
  }
  if (format.bits() > 8)
    fail(
        "quantized",
        {.argument = "format", .expected = "one of up to 8 bits, or a type", .found = format.name});
  return DType::u8;
}

Shape stored_shape(const Shape& matrix, const formats::Format& format) {
  if (stored_type(format) != DType::u8) return matrix;
  return {matrix[0], formats::code_bytes(format, matrix[1])};
}

const formats::Format& format_of(DType dtype) {
  for (const auto& [type, format] : types) {
    if (type == dtype) return *format;
  }
  fail("quantized", {.argument = "dtype",
                     .expected = "f32, f16, bf16, e4m3 or e5m2",
                     .found = std::string(name(dtype))});
}

int64_t Quantized::bytes() const {
  int64_t sum = 0;
  for (const Tensor* part : {&data, &scale_inv, &outer_inv, &transposed}) {
    if (part->defined()) sum += part->bytes();
  }
  return sum;
}

Quantized empty_quantized(const Shape& matrix, const QuantizedLayout& layout, Device device) {
  const auto scales = [&](ScaleGroup group, DType dtype) {
    return Tensor::empty(scale_shape(matrix, group), dtype, device);
  };
  return {.layout = layout,
          .shape = matrix,
          .data = Tensor::empty(stored_shape(matrix, layout.format), stored_type(layout.format),
                                device),
          .scale_inv = scales(layout.group, stored_type(layout.scale)),
          .outer_inv = layout.outer ? scales(*layout.outer, DType::f32) : Tensor()};
}

Quantized quantized_of(const Tensor& data, const Tensor& scale_inv, ScaleGroup group) {
  const bool is_e8m0 = scale_inv.dtype() == DType::u8;
  return {.layout = {.format = format_of(data.dtype()),
                     .group = group,
                     .scale = is_e8m0 ? formats::spec::e8m0 : formats::spec::f32},
          .shape = data.shape(),
          .data = data,
          .scale_inv = scale_inv};
}

void check_quantized(const Quantized& q) {
  const auto& [format, group, scale, outer] = q.layout;
  if (q.shape.rank() != 2)
    fail("quantized",
         {.argument = "shape", .expected = "[rows, columns]", .found = to_string(q.shape)});
  require_part("data", q.data, stored_type(format), stored_shape(q.shape, format));
  require_part("scale_inv", q.scale_inv, stored_type(scale), scale_shape(q.shape, group));
  if (outer) require_part("outer_inv", q.outer_inv, DType::f32, scale_shape(q.shape, *outer));
  if (!outer && q.outer_inv.defined())
    fail("quantized", {.argument = "outer_inv",
                       .expected = "none without a second level in the layout",
                       .found = describe(q.outer_inv)});
  if (q.transposed.defined())
    require_part("transposed", q.transposed, stored_type(format),
                 stored_shape({q.shape[1], q.shape[0]}, format));
}

Quantized quantized_rows(const Quantized& q, int64_t begin, int64_t count) {
  require_whole_groups(q, q.layout.group, begin, count);
  if (q.layout.outer) require_whole_groups(q, *q.layout.outer, begin, count);
  Quantized rows{.layout = q.layout, .shape = {count, q.shape[1]}, .data = {}, .scale_inv = {}};
  rows.data = q.data.strided({count, q.data.size(1)}, q.data.strides(),
                             q.data.offset() + begin * q.data.strides()[0]);
  rows.scale_inv = scale_rows(q.scale_inv, q.layout.group.rows, begin, count);
  if (q.layout.outer) rows.outer_inv = scale_rows(q.outer_inv, q.layout.outer->rows, begin, count);
  return rows;
}

}  // namespace binade
