#include "binade/backend/quantize.h"

#include <algorithm>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "binade/backend/activation.h"
#include "binade/backend/cpu/kernels.h"
#include "binade/backend/cpu/norm/norm_rows.h"
#include "binade/backend/cpu/quantize/coded.h"
#include "binade/backend/cpu/quantize/group_rows.h"
#include "binade/backend/quantize_scale.h"
#include "binade/base/division.h"
#include "binade/base/parallel.h"
#include "binade/formats/codes.h"
#include "binade/formats/convert.h"

namespace binade::backend::cpu {
namespace {

// Row `row`, columns [begin, end) of x as f32.
void read_row(const TensorView& x, int64_t row, int64_t begin, int64_t end, float* out) {
  dispatch(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* in = x.as<T>() + row * x.strides[0];
    const int64_t step = x.strides[1];
    if constexpr (sizeof(T) == 2 || std::is_same_v<T, e4m3> || std::is_same_v<T, e5m2>) {
      if (step == 1) return formats::widen(in + begin, out, static_cast<size_t>(end - begin));
    }
    for (int64_t column = begin; column < end; ++column)
      *out++ = static_cast<float>(in[column * step]);
  });
}

void write_row(const float* values, const TensorView& data, int64_t row, int64_t begin,
               int64_t count) {
  const auto n = static_cast<size_t>(count);
  const int64_t offset = row * data.shape[1] + begin;
  constexpr auto nearest = formats::Rounding::nearest_even;
  if (data.dtype == DType::e4m3)
    formats::narrow(values, data.as<e4m3>() + offset, n, nearest, formats::Overflow::saturate);
  if (data.dtype == DType::e5m2)
    formats::narrow(values, data.as<e5m2>() + offset, n, nearest, formats::Overflow::saturate);
}

// The code of a value that is not finite: NaN, or an infinity if the type has one.
uint8_t special_code(DType dtype, float value) {
  constexpr auto nearest = formats::Rounding::nearest_even;
  return static_cast<uint8_t>(dtype == DType::e4m3
                                  ? formats::encode<formats::spec::e4m3>(value, nearest)
                                  : formats::encode<formats::spec::e5m2>(value, nearest));
}

// Writes the codes of non-finite elements of x, which write_row() has saturated.
void write_specials(const TensorView& x, int64_t row, int64_t begin, int64_t count,
                    const TensorView& data) {
  std::vector<float> values(static_cast<size_t>(count));
  read_row(x, row, begin, begin + count, values.data());
  auto* codes = data.as<uint8_t>() + row * data.shape[1] + begin;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!finite(values[i])) codes[i] = special_code(data.dtype, values[i]);
  }
}

// Magnitudes order like their bits, with NaN above all others.
float row_amax(const float* values, int64_t count) {
  uint32_t amax = 0;
  for (int64_t i = 0; i < count; ++i)
    amax = std::max(amax, formats::float_bits(values[i]) & 0x7FFFFFFFu);
  return formats::float_from_bits(amax);
}

void amax(TensorView x, TensorView result) {
  const int64_t rows = x.shape[0], columns = x.shape[1];
  std::vector<float> partial(static_cast<size_t>(rows));
  parallel_for(rows, 8, [&](int64_t begin, int64_t end) {
    std::vector<float> values(static_cast<size_t>(columns));
    for (int64_t row = begin; row < end; ++row) {
      read_row(x, row, 0, columns, values.data());
      partial[static_cast<size_t>(row)] = row_amax(values.data(), columns);
    }
  });
  *result.as<float>() = row_amax(partial.data(), rows);
}

// Transposes data [rows, columns] in squares that fit the cache.
void transpose(const TensorView& data, const TensorView& transposed) {
  constexpr int64_t side = 64;  // a square of 4 KiB
  const int64_t rows = data.shape[0], columns = data.shape[1];
  const auto* from = data.as<uint8_t>();
  auto* to = transposed.as<uint8_t>();
  parallel_for(columns, side, [&](int64_t begin, int64_t end) {
    for (int64_t top = 0; top < rows; top += side) {
      const int64_t bottom = std::min(rows, top + side);
      for (int64_t column = begin; column < end; ++column) {
        for (int64_t row = top; row < bottom; ++row)
          to[column * rows + row] = from[row * columns + column];
      }
    }
  });
}

// Quantizes rows [begin, end) of x into the same rows of `data`. Returns their amax, before
// scaling.
float quantize_rows(const TensorView& x, int64_t begin, int64_t end, const QuantizedOutput& out,
                    const TensorView& data) {
  const float factor = *out.scale.as<float>();
  const int64_t columns = x.shape[1];
  std::vector<float> values(static_cast<size_t>(columns));
  float amax = 0;
  for (int64_t row = begin; row < end; ++row) {
    read_row(x, row, 0, columns, values.data());
    const float largest = row_amax(values.data(), columns);
    amax = larger(amax, largest);
    for (float& value : values) value *= factor;
    write_row(values.data(), data, row, 0, columns);
    if (!finite(largest)) write_specials(x, row, 0, columns, data);
  }
  return amax;
}

// Rows that a thread quantizes at a time: their values stay in the cache.
constexpr int64_t block_rows = 32;

// run(top, count, data) quantizes rows [top, top + count) into the same rows of `data` and returns
// their amax.
template <class F>
void quantize_blocks(const QuantizedOutput& out, F run) {
  const int64_t rows = out.rows(), columns = out.columns(), blocks = divide_up(rows, block_rows);
  std::vector<uint8_t> scratch;
  TensorView data = out.data;
  if (!data.present) {
    scratch.resize(static_cast<size_t>(rows * columns));
    data = {.data = scratch.data(),
            .dtype = out.dtype(),
            .shape = {rows, columns},
            .strides = {columns, 1},
            .present = true};
  }
  std::vector<float> partial(static_cast<size_t>(blocks));
  parallel_for(blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t top = block * block_rows;
      partial[static_cast<size_t>(block)] = run(top, std::min(block_rows, rows - top), data);
    }
  });
  if (out.transposed.present) transpose(data, out.transposed);
  if (out.amax.present) {
    auto* amax = out.amax.as<float>();
    *amax = larger(*amax, row_amax(partial.data(), blocks));
  }
}

void quantize(TensorView x, const QuantizedOutput& out) {
  quantize_blocks(out, [&](int64_t top, int64_t count, const TensorView& data) {
    return quantize_rows(x, top, top + count, out, data);
  });
}

// ---- fused: matrices computed some rows at a time ----

// Rows [top, top + count) of dense x, or elements of a vector.
TensorView rows_of(TensorView x, int64_t top, int64_t count) {
  if (!x.present) return x;
  x.data = x.as<uint8_t>() + top * x.strides[0] * static_cast<int64_t>(size_of(x.dtype));
  x.shape[0] = count;
  return x;
}

// compute(top, count, rows) writes rows [top, top + count) of a matrix of out's shape as `dtype`.
// Kernels that it calls run on the calling thread, since they are inside a parallel loop.
template <class F>
void quantize_fused(DType dtype, const QuantizedOutput& out, F compute) {
  const int64_t columns = out.columns();
  quantize_blocks(out, [&](int64_t top, int64_t count, const TensorView& data) {
    const size_t bytes = static_cast<size_t>(count * columns) * size_of(dtype);
    const auto scratch = std::make_unique_for_overwrite<uint8_t[]>(bytes);
    const TensorView rows{.data = scratch.get(),
                          .dtype = dtype,
                          .shape = {count, columns},
                          .strides = {columns, 1},
                          .present = true};
    compute(top, count, rows);
    return quantize_rows(rows, 0, count, out, rows_of(data, top, count));
  });
}

void dequantize(const QuantizedView& q, TensorView x);

// The values of rows [top, top + count).
class StoredRows {
 public:
  StoredRows(const StoredMatrix& x, int64_t top, int64_t count)
      : values_(rows_of(x.data, top, count)) {
    if (!x.is_quantized()) return;
    const TensorView data = values_;
    scratch_ = std::make_unique_for_overwrite<uint8_t[]>(static_cast<size_t>(data.numel()) *
                                                         size_of(x.dtype));
    values_.data = scratch_.get();
    values_.dtype = x.dtype;
    dequantize({data, x.scale_inv, {}}, values_);
  }
  const TensorView& values() const { return values_; }

 private:
  TensorView values_;
  std::unique_ptr<uint8_t[]> scratch_;
};

void quantize_swiglu(const StoredMatrix& x, const QuantizedOutput& out) {
  quantize_fused(x.dtype, out, [&](int64_t top, int64_t count, const TensorView& y) {
    activation_kernels.swiglu(StoredRows(x, top, count).values(), y);
  });
}

void quantize_swiglu_backward(TensorView dy, const StoredMatrix& x, const QuantizedOutput& out,
                              const QuantizedOutput& gated) {
  if (gated.data.present || gated.transposed.present) quantize_swiglu(x, gated);
  quantize_fused(x.dtype, out, [&](int64_t top, int64_t count, const TensorView& dx) {
    const StoredRows rows(x, top, count);
    activation_kernels.swiglu_backward({rows_of(dy, top, count), rows.values(), dx});
  });
}

void quantize_activation_backward(Activation activation, TensorView dy, TensorView pre_activation,
                                  const QuantizedOutput& out) {
  quantize_fused(dy.dtype, out, [&](int64_t top, int64_t count, const TensorView& dx) {
    activation_kernels.activation_backward({.activation = activation,
                                            .dy = rows_of(dy, top, count),
                                            .pre_activation = rows_of(pre_activation, top, count),
                                            .dx = dx});
  });
}

void quantize_norm(const NormOperands& norm, const QuantizedOutput& out) {
  quantize_fused(norm.dtype, out, [&](int64_t top, int64_t count, const TensorView& y) {
    normalize(rows_of(norm.x, top, count), norm.weight, norm.bias, rows_of(norm.mean, top, count),
              rows_of(norm.rstd, top, count), y);
  });
}

// Heads [first, first + count) of rows of a matrix, as tokens of one sequence.
TensorView heads_of(TensorView rows, int64_t first, int64_t count, int64_t dim) {
  rows.data = rows.as<uint8_t>() + first * dim * static_cast<int64_t>(size_of(rows.dtype));
  rows.shape = {1, rows.shape[0], count, dim};
  rows.strides = {rows.shape[1] * rows.strides[0], rows.strides[0], dim, 1};
  return rows;
}

void quantize_rope(const RotatedHeads& call, const QuantizedOutput& out) {
  const int64_t tokens = call.x.shape[1], heads = call.x.shape[2], dim = call.x.shape[3];
  TensorView x = call.x;
  x.shape = {out.rows(), out.columns()};
  x.strides = {out.columns(), 1};
  quantize_fused(x.dtype, out, [&](int64_t top, int64_t count, const TensorView& y) {
    for (int64_t row = top, next = 0; row < top + count; row = next) {
      next = std::min(top + count, (row / tokens + 1) * tokens);  // of the same sequence
      const TensorView from = rows_of(x, row, next - row), to = rows_of(y, row - top, next - row);
      attention_kernels.rope({.x = heads_of(from, 0, call.rotated, dim),
                              .cosine = call.cosine,
                              .sine = call.sine,
                              .start = call.start + row % tokens,
                              .inverse = call.inverse,
                              .y = heads_of(to, 0, call.rotated, dim)});
      elementwise_kernels.copy(heads_of(from, call.rotated, heads - call.rotated, dim),
                               heads_of(to, call.rotated, heads - call.rotated, dim));
    }
  });
}

void quantize_groups(TensorView x, const GroupQuantizedOutput& out) {
  const int64_t rows = x.shape[0], columns = x.shape[1];
  if (rows == 0 || columns == 0) return;
  const ScaleGroup sized = sized_group(x.shape, out.group);
  const int64_t group_rows = sized.rows, group_columns = sized.columns;
  const Shape groups = scale_shape(x.shape, out.group);
  const int64_t across = groups[1];
  const float max_value = max_of(out.data.dtype);
  parallel_for(groups.numel(), 1, [&](int64_t begin, int64_t end) {
    std::vector<float> values(static_cast<size_t>(group_columns));
    for (int64_t index = begin; index < end; ++index) {
      const int64_t top = index / across * group_rows, left = index % across * group_columns;
      const int64_t bottom = std::min(rows, top + group_rows),
                    width = std::min(columns - left, group_columns);
      float amax = 0;
      for (int64_t row = top; row < bottom; ++row) {
        read_row(x, row, left, left + width, values.data());
        amax = larger(amax, row_amax(values.data(), width));
      }
      const float scale = scale_for(amax, max_value, out.rule);
      out.scale_inv.as<float>()[index] = 1 / scale;
      for (int64_t row = top; row < bottom; ++row) {
        read_row(x, row, left, left + width, values.data());
        for (int64_t i = 0; i < width; ++i) values[static_cast<size_t>(i)] *= scale;
        write_row(values.data(), out.data, row, left, width);
        if (!finite(amax)) write_specials(x, row, left, width, out.data);
      }
    }
  });
  if (out.transposed.present) transpose(out.data, out.transposed);
}

// Row `row` of a quantized matrix, before scales.
void read_stored_row(const QuantizedView& q, const formats::Coder& coder, int64_t row,
                     float* values) {
  if (q.data.dtype != DType::u8) return read_row(q.data, row, 0, q.shape[1], values);
  coder.decode_run(q.data.as<uint8_t>() + row * q.data.strides[0], static_cast<size_t>(q.shape[1]),
                   values);
}

void quantize_mx(TensorView x, const QuantizedView& out) {
  quantize_coded(x, {.rule = GroupRule::mx_floor}, out);
}

// One level of scales: f32, or in a format of up to 8 bits.
class ScaleLevel {
 public:
  ScaleLevel(const TensorView& scales, const formats::Format& format, const Shape& matrix,
             ScaleGroup group)
      : scales_(scales),
        coder_(scales.dtype == DType::f32 ? formats::spec::e8m0 : format),
        group_(sized_group(matrix, group)),
        across_(scale_shape(matrix, group)[1]) {}

  // Multiplies a row's values by their scales.
  void apply(int64_t row, std::vector<float>& values) const {
    group_rows().scale(values.data(), static_cast<int64_t>(values.size()), group_.columns,
                       of_row(row).data());
  }

 private:
  std::vector<float> of_row(int64_t row) const {
    const int64_t begin = row / group_.rows * across_;
    std::vector<float> result(static_cast<size_t>(across_));
    if (scales_.dtype == DType::f32) {
      std::copy_n(scales_.as<float>() + begin, across_, result.begin());
    } else {
      coder_.decode_run(scales_.as<uint8_t>() + begin, result.size(), result.data());
    }
    return result;
  }

  const TensorView& scales_;
  formats::Coder coder_;  // of scales in bytes
  ScaleGroup group_;
  int64_t across_;
};

void dequantize(const QuantizedView& q, TensorView x) {
  const int64_t rows = q.shape[0], columns = q.shape[1];
  if (rows == 0 || columns == 0) return;
  const ScaleLevel inner(q.scale_inv, q.layout.scale, q.shape, q.layout.group),
      outer(q.outer_inv, formats::spec::f32, q.shape, q.layout.outer.value_or(ScaleGroup{}));
  const formats::Coder coder(q.data.dtype == DType::u8 ? q.layout.format : formats::spec::e4m3);
  parallel_for(rows, 8, [&](int64_t begin, int64_t end) {
    std::vector<float> values(static_cast<size_t>(columns));
    for (int64_t row = begin; row < end; ++row) {
      read_stored_row(q, coder, row, values.data());
      inner.apply(row, values);
      if (q.outer_inv.present) outer.apply(row, values);
      dispatch_floating("dequantize", x.dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        T* out = x.as<T>() + row * x.strides[0];
        if constexpr (sizeof(T) == 2) {
          if (x.strides[1] == 1)
            return formats::narrow(values.data(), out, static_cast<size_t>(columns));
        }
        for (int64_t i = 0; i < columns; ++i)
          out[i * x.strides[1]] = T(values[static_cast<size_t>(i)]);
      });
    }
  });
}

void record_amax(TensorView amax, TensorView pending, TensorView dropped) {
  settle_amax(*pending.as<float>(), *dropped.as<int32_t>());
  if (!amax.present) return;
  float value = *amax.as<float>();
  settle_amax(value, *dropped.as<int32_t>());
  *pending.as<float>() = std::max(*pending.as<float>(), value);
}

void roll_one(const DelayedScale& stream) {
  float* past = stream.history.as<float>();
  const int64_t length = stream.history.numel();
  std::move_backward(past, past + length - 1, past + length);
  settle_amax(*stream.pending.as<float>(), *stream.dropped.as<int32_t>());
  past[0] = std::exchange(*stream.pending.as<float>(), 0.0f);
  const float amax = stream.rule.most_recent ? past[0] : *std::max_element(past, past + length);
  if (amax == 0) return;
  const float scale = delayed_scale(amax, static_cast<float>(stream.max_value), stream.rule);
  *stream.scale.as<float>() = scale;
  *stream.scale_inv.as<float>() = 1 / scale;
}

void roll(std::span<const DelayedScale> streams) {
  for (const DelayedScale& stream : streams) {
    roll_one(stream);
    if (stream.prepared.present) *stream.prepared.as<float>() = *stream.scale_inv.as<float>();
  }
}

}  // namespace

const QuantizeKernels quantize_kernels{.amax = amax,
                                       .quantize = quantize,
                                       .quantize_swiglu = quantize_swiglu,
                                       .quantize_swiglu_backward = quantize_swiglu_backward,
                                       .quantize_activation_backward = quantize_activation_backward,
                                       .quantize_norm = quantize_norm,
                                       .quantize_rope = quantize_rope,
                                       .quantize_groups = quantize_groups,
                                       .quantize_mx = quantize_mx,
                                       .quantize_coded = quantize_coded,
                                       .dequantize = dequantize,
                                       .record_amax = record_amax,
                                       .roll = roll};

}  // namespace binade::backend::cpu
