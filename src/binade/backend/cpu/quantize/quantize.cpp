#include "binade/backend/quantize.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "binade/backend/activation.h"
#include "binade/backend/cpu/kernels.h"
#include "binade/backend/cpu/norm/norm_rows.h"
#include "binade/backend/fp8_scale.h"
#include "binade/base/division.h"
#include "binade/base/parallel.h"
#include "binade/formats/convert.h"

namespace binade::backend::cpu {
namespace {

// Row `row`, columns [begin, end) of x as f32.
void read_row(const TensorView& x, int64_t row, int64_t begin, int64_t end, float* out) {
  dispatch(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* in = x.as<T>() + row * x.strides[0];
    const int64_t step = x.strides[1];
    if constexpr (sizeof(T) == 2) {
      if (step == 1) return formats::widen(in + begin, out, static_cast<size_t>(end - begin));
    }
    for (int64_t column = begin; column < end; ++column)
      *out++ = static_cast<float>(in[column * step]);
  });
}

void write_row(const float* values, const TensorView& q, int64_t row, int64_t begin,
               int64_t count) {
  const auto n = static_cast<size_t>(count);
  const int64_t offset = row * q.shape[1] + begin;
  constexpr auto nearest = formats::Rounding::nearest_even;
  if (q.dtype == DType::e4m3)
    formats::narrow(values, q.as<e4m3>() + offset, n, nearest, formats::Overflow::saturate);
  if (q.dtype == DType::e5m2)
    formats::narrow(values, q.as<e5m2>() + offset, n, nearest, formats::Overflow::saturate);
}

// Magnitudes compare as their bits do, and NaN's are above all others.
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

// transposed [columns, rows] = the codes of q [rows, columns], transposed in squares that fit the
// cache.
void turn(const TensorView& q, const TensorView& transposed) {
  constexpr int64_t side = 64;
  const int64_t rows = q.shape[0], columns = q.shape[1];
  const auto* from = q.as<uint8_t>();
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

// Rows [begin, end) of x, scaled, into the same rows of q. Returns their amax, unscaled, where it
// is wanted.
float quantize_rows(const TensorView& x, int64_t begin, int64_t end, const Codes& codes,
                    const TensorView& q) {
  const float factor = *codes.scale.as<float>();
  const int64_t columns = x.shape[1];
  std::vector<float> values(static_cast<size_t>(columns));
  float amax = 0;
  for (int64_t row = begin; row < end; ++row) {
    read_row(x, row, 0, columns, values.data());
    if (codes.amax.present) amax = larger(amax, row_amax(values.data(), columns));
    for (float& value : values) value *= factor;
    write_row(values.data(), q, row, 0, columns);
  }
  return amax;
}

// Rows that a thread takes at a time.
constexpr int64_t at_once = 32;

// run(top, count) quantizes rows [top, top + count) and returns their amax.
template <class F>
void quantize_blocks(const Codes& codes, F run) {
  const int64_t rows = codes.q.shape[0], blocks = divide_up(rows, at_once);
  std::vector<float> partial(static_cast<size_t>(blocks));
  parallel_for(blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t top = block * at_once;
      partial[static_cast<size_t>(block)] = run(top, std::min(at_once, rows - top));
    }
  });
  if (codes.transposed.present) turn(codes.q, codes.transposed);
  if (codes.amax.present) {
    auto* amax = codes.amax.as<float>();
    *amax = larger(*amax, row_amax(partial.data(), blocks));
  }
}

void quantize(TensorView x, const Codes& codes) {
  quantize_blocks(codes, [&](int64_t top, int64_t count) {
    return quantize_rows(x, top, top + count, codes, codes.q);
  });
}

// ---- matrices made on the way: some rows at a time ----

// Rows [top, top + count) of dense x, or elements of a vector.
TensorView rows_of(TensorView x, int64_t top, int64_t count) {
  if (!x.present) return x;
  x.data = x.as<uint8_t>() + top * x.strides[0] * static_cast<int64_t>(size_of(x.dtype));
  x.shape[0] = count;
  return x;
}

// make(top, count, rows) writes rows [top, top + count) of a matrix of q's shape as `type`. Kernels
// it calls run on the thread that calls it.
template <class F>
void quantize_fused(DType type, const Codes& codes, F make) {
  const int64_t columns = codes.q.shape[1];
  quantize_blocks(codes, [&](int64_t top, int64_t count) {
    const size_t bytes = static_cast<size_t>(count * columns) * size_of(type);
    const auto scratch = std::make_unique_for_overwrite<uint8_t[]>(bytes);
    const TensorView made{.data = scratch.get(),
                          .dtype = type,
                          .shape = {count, columns},
                          .strides = {columns, 1},
                          .present = true};
    make(top, count, made);
    return quantize_rows(made, 0, count, codes, rows_of(codes.q, top, count));
  });
}

void quantize_swiglu(TensorView x, const Codes& codes) {
  quantize_fused(x.dtype, codes, [&](int64_t top, int64_t count, const TensorView& y) {
    activation_kernels.swiglu(rows_of(x, top, count), y);
  });
}

void quantize_swiglu_backward(TensorView dy, TensorView x, const Codes& codes) {
  quantize_fused(x.dtype, codes, [&](int64_t top, int64_t count, const TensorView& dx) {
    activation_kernels.swiglu_backward(rows_of(dy, top, count), rows_of(x, top, count), dx);
  });
}

void quantize_activation_backward(Activation activation, TensorView dy, TensorView pre_activation,
                                  const Codes& codes) {
  quantize_fused(dy.dtype, codes, [&](int64_t top, int64_t count, const TensorView& dx) {
    activation_kernels.activation_backward({.activation = activation,
                                            .dy = rows_of(dy, top, count),
                                            .pre_activation = rows_of(pre_activation, top, count),
                                            .dx = dx});
  });
}

void quantize_norm(TensorView x, TensorView weight, TensorView bias, TensorView mean,
                   TensorView rstd, DType type, const Codes& codes) {
  quantize_fused(type, codes, [&](int64_t top, int64_t count, const TensorView& y) {
    normalize(rows_of(x, top, count), weight, bias, rows_of(mean, top, count),
              rows_of(rstd, top, count), y);
  });
}

void quantize_groups(TensorView x, ScaleGroup group, ScaleRule rule, TensorView q,
                     TensorView transposed, TensorView inverse) {
  const int64_t rows = x.shape[0], columns = x.shape[1];
  if (rows == 0 || columns == 0) return;
  const int64_t group_rows = group.rows == 0 ? rows : group.rows,
                group_columns = group.columns == 0 ? columns : group.columns;
  const int64_t across = (columns + group_columns - 1) / group_columns,
                down = (rows + group_rows - 1) / group_rows;
  const float max_value = fp8_max(q.dtype);
  parallel_for(down * across, 1, [&](int64_t begin, int64_t end) {
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
      const float scale = scale_for(amax, max_value, rule);
      inverse.as<float>()[index] = 1 / scale;
      for (int64_t row = top; row < bottom; ++row) {
        read_row(x, row, left, left + width, values.data());
        for (int64_t i = 0; i < width; ++i) values[static_cast<size_t>(i)] *= scale;
        write_row(values.data(), q, row, left, width);
      }
    }
  });
  if (transposed.present) turn(q, transposed);
}

void quantize_mx(TensorView x, TensorView q, TensorView codes) {
  const int64_t rows = x.shape[0], columns = x.shape[1];
  const int64_t across = (columns + mx_group - 1) / mx_group;
  const int largest = fp8_max_exponent(q.dtype);
  parallel_for(rows, 4, [&](int64_t begin, int64_t end) {
    std::vector<float> values(static_cast<size_t>(columns));
    for (int64_t row = begin; row < end; ++row) {
      read_row(x, row, 0, columns, values.data());
      for (int64_t at = 0; at < across; ++at) {
        float* group = values.data() + at * mx_group;
        const int64_t count = std::min(mx_group, columns - at * mx_group);
        const MxScale scale = mx_scale(row_amax(group, count), largest);
        codes.as<uint8_t>()[row * across + at] = scale.code;
        for (int64_t i = 0; i < count; ++i) group[i] = scale.apply(group[i]);
      }
      write_row(values.data(), q, row, 0, columns);
    }
  });
}

float inverse_at(const TensorView& inverse, int64_t index) {
  return inverse.dtype == DType::f32 ? inverse_value(inverse.as<float>()[index])
                                     : inverse_value(inverse.as<uint8_t>()[index]);
}

void dequantize(TensorView q, TensorView inverse, ScaleGroup group, TensorView x) {
  const int64_t rows = q.shape[0], columns = q.shape[1];
  if (rows == 0 || columns == 0) return;
  const int64_t group_rows = group.rows == 0 ? rows : group.rows,
                group_columns = group.columns == 0 ? columns : group.columns;
  const int64_t across = (columns + group_columns - 1) / group_columns;
  parallel_for(rows, 8, [&](int64_t begin, int64_t end) {
    std::vector<float> values(static_cast<size_t>(columns));
    for (int64_t row = begin; row < end; ++row) {
      read_row(q, row, 0, columns, values.data());
      for (int64_t at = 0; at < across; ++at) {
        const float factor = inverse_at(inverse, row / group_rows * across + at);
        const int64_t stop = std::min(columns, (at + 1) * group_columns);
        for (int64_t i = at * group_columns; i < stop; ++i)
          values[static_cast<size_t>(i)] *= factor;
      }
      dispatch_floating("dequantize", x.dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        T* out = x.as<T>() + row * x.strides[0];
        for (int64_t i = 0; i < columns; ++i)
          out[i * x.strides[1]] = T(values[static_cast<size_t>(i)]);
      });
    }
  });
}

void record_amax(TensorView amax, TensorView pending, TensorView dropped) {
  const float value = *amax.as<float>();
  if (finite(value)) {
    *pending.as<float>() = std::max(*pending.as<float>(), value);
  } else {
    ++*dropped.as<int32_t>();
  }
}

void roll(TensorView history, TensorView pending, double max_value, DelayedRule rule,
          TensorView scale, TensorView inverse) {
  float* past = history.as<float>();
  const int64_t length = history.numel();
  std::move_backward(past, past + length - 1, past + length);
  past[0] = std::exchange(*pending.as<float>(), 0.0f);
  const float amax = rule.most_recent ? past[0] : *std::max_element(past, past + length);
  if (amax == 0) return;
  *scale.as<float>() = delayed_scale(amax, static_cast<float>(max_value), rule.margin);
  *inverse.as<float>() = 1 / *scale.as<float>();
}

}  // namespace

const QuantizeKernels quantize_kernels{.amax = amax,
                                       .quantize = quantize,
                                       .quantize_swiglu = quantize_swiglu,
                                       .quantize_swiglu_backward = quantize_swiglu_backward,
                                       .quantize_activation_backward = quantize_activation_backward,
                                       .quantize_norm = quantize_norm,
                                       .quantize_groups = quantize_groups,
                                       .quantize_mx = quantize_mx,
                                       .dequantize = dequantize,
                                       .record_amax = record_amax,
                                       .roll = roll};

}  // namespace binade::backend::cpu
