#include "binade/backend/cpu/quantize/coded.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "binade/backend/cpu/kernels.h"
#include "binade/backend/quantize_scale.h"
#include "binade/base/division.h"
#include "binade/base/parallel.h"
#include "binade/formats/convert.h"

namespace binade::backend::cpu {
namespace {

constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

// Rows that a thread reads at a time: columns of a transposed matrix lie side by side.
constexpr int64_t band_rows = 16;

// Rows [top, top + height) of x as f32, one after the other.
void read_band(const TensorView& x, int64_t top, int64_t height, float* out) {
  const int64_t columns = x.shape[1];
  dispatch(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* in = x.as<T>() + top * x.strides[0];
    if (x.strides[1] == 1) {
      for (int64_t row = 0; row < height; ++row, in += x.strides[0], out += columns) {
        if constexpr (sizeof(T) == 2) {
          formats::widen(in, out, static_cast<size_t>(columns));
        } else {
          for (int64_t i = 0; i < columns; ++i) out[i] = static_cast<float>(in[i]);
        }
      }
      return;
    }
    for (int64_t column = 0; column < columns; ++column, in += x.strides[1]) {
      for (int64_t row = 0; row < height; ++row)
        out[row * columns + column] = static_cast<float>(in[row * x.strides[0]]);
    }
  });
}

// Magnitudes order like their bits, with NaN above all others.
uint32_t magnitude_bits(const float* values, int64_t count) {
  uint32_t amax = 0;
  for (int64_t i = 0; i < count; ++i)
    amax = std::max(amax, formats::float_bits(values[i]) & 0x7FFFFFFFu);
  return amax;
}

// Multiplies runs of `size` values by the orthonormal Hadamard matrix and rounds all to bf16.
void transform_row(float* values, int64_t count, const GroupCoding& coding, bf16* out) {
  const int size = coding.hadamard;
  const auto factor = static_cast<float>(1 / std::sqrt(static_cast<double>(size)));
  for (float* run = values; run + size <= values + count; run += size) {
    for (int i = 0; i < size; ++i) {
      if ((coding.signs >> i & 1) != 0) run[i] = -run[i];
    }
    for (int half = 1; half < size; half *= 2) {
      for (int begin = 0; begin < size; begin += 2 * half) {
        for (int i = begin; i < begin + half; ++i) {
          const float a = run[i], b = run[i + half];
          run[i] = a + b;
          run[i + half] = a - b;
        }
      }
    }
    for (int i = 0; i < size; ++i) run[i] *= factor;
  }
  formats::narrow(values, out, static_cast<size_t>(count));
}

// x after the transform, dense.
std::vector<bf16> transformed(const TensorView& x, const GroupCoding& coding) {
  const int64_t rows = x.shape[0], columns = x.shape[1];
  std::vector<bf16> result(static_cast<size_t>(rows * columns));
  parallel_for(divide_up(rows, band_rows), 1, [&](int64_t begin, int64_t end) {
    std::vector<float> values(static_cast<size_t>(band_rows * columns));
    for (int64_t top = begin * band_rows; top < std::min(rows, end * band_rows); top += band_rows) {
      const int64_t height = std::min(band_rows, rows - top);
      read_band(x, top, height, values.data());
      for (int64_t row = 0; row < height; ++row)
        transform_row(values.data() + row * columns, columns, coding,
                      result.data() + (top + row) * columns);
    }
  });
  return result;
}

// The largest magnitude of x: infinite or NaN if an element is.
float largest_magnitude(const TensorView& x) {
  const int64_t rows = x.shape[0], columns = x.shape[1], bands = divide_up(rows, band_rows);
  std::vector<float> partial(static_cast<size_t>(bands));
  parallel_for(bands, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> values(static_cast<size_t>(band_rows * columns));
    for (int64_t band = begin; band < end; ++band) {
      const int64_t height = std::min(band_rows, rows - band * band_rows);
      read_band(x, band * band_rows, height, values.data());
      partial[static_cast<size_t>(band)] =
          formats::float_from_bits(magnitude_bits(values.data(), height * columns));
    }
  });
  return formats::float_from_bits(magnitude_bits(partial.data(), bands));
}

// A group's scale: what is stored, and the two factors of values, because the scale of an MX group
// may exceed the range of f32.
struct CodedScale {
  uint8_t code = 0;     // of scale_inv, unless that is f32
  float scale_inv = 0;  // if it is
  float first = 1, second = 1;
};

// The values of a group: `height` rows of `width`, `stride` apart.
struct GroupValues {
  float* values;
  int64_t height, width, stride;
};

// Chooses scales of groups.
class GroupScaler {
 public:
  GroupScaler(const TensorView& x, const GroupCoding& coding, const QuantizedView& out)
      : coding_(coding),
        format_(out.layout.format),
        coder_(out.layout.format),
        max_value_(static_cast<float>(out.layout.format.max())) {
    if (out.layout.scale.bits() <= 8) scales_.emplace(out.layout.scale);
    if (coding.rule != GroupRule::two_levels) return;
    // Beside the choice of 4, whose scale is larger by a half, the largest scale is 256.
    const double largest_scale = coding.four_over_six ? 256 : out.layout.scale.max();
    tensor_ = nv_tensor_scale(largest_magnitude(x), max_value_ * static_cast<float>(largest_scale));
    *out.outer_inv.as<float>() = tensor_.scale_inv;
  }

  CodedScale scale_of(float amax, const GroupValues& group) const {
    const bool is_finite = finite(amax);
    switch (coding_.rule) {
      case GroupRule::largest:
      case GroupRule::power_of_two: {
        if (!is_finite) return {.scale_inv = not_a_number, .first = not_a_number};
        const float scale = scale_for(
            amax, max_value_,
            {.eps = coding_.eps, .power_of_two = coding_.rule == GroupRule::power_of_two});
        return {.scale_inv = 1 / scale, .first = scale};
      }
      case GroupRule::two_levels:
        return is_finite ? two_levels(amax, group) : nan_scale();
      default:
        return is_finite ? power_of_two(amax) : nan_scale();
    }
  }

 private:
  CodedScale nan_scale() const {
    return {.code = static_cast<uint8_t>(scales_->format().nan_code()), .first = not_a_number};
  }

  // Within the range of the scales' format.
  CodedScale power_of_two(float amax) const {
    int exponent = amax == 0                             ? -127
                   : coding_.rule == GroupRule::mx_floor ? std::ilogb(amax) - format_.max_exponent()
                   : coding_.rule == GroupRule::mx_round_up ? mx_round_up_exponent(amax, format_)
                                                            : mx_ceil_exponent(amax, format_);
    const formats::Format& scale = scales_->format();
    exponent = std::clamp(exponent, scale.min_exponent(), scale.max_exponent());
    const MxScale factors = mx_scale_of(exponent);
    return {.code = static_cast<uint8_t>(exponent + scale.bias()),
            .first = factors.first,
            .second = factors.second};
  }

  CodedScale two_levels(float amax, const GroupValues& group) const {
    NvScale chosen = nv_scale(amax, tensor_, max_value_, *scales_);
    if (coding_.four_over_six) {
      const NvScale wider = nv_scale(amax, tensor_, 4, *scales_);
      if (squared_error(group, wider) < squared_error(group, chosen)) chosen = wider;
    }
    return {.code = chosen.code, .first = chosen.factor};
  }

  float squared_error(const GroupValues& group, const NvScale& scale) const {
    float sum = 0;
    for (int64_t row = 0; row < group.height; ++row) {
      for (int64_t i = 0; i < group.width; ++i) {
        const float value = group.values[row * group.stride + i];
        const uint32_t code = coder_.encode(value * scale.factor, formats::Rounding::nearest_even,
                                            formats::Overflow::saturate);
        const float error = coder_.decode(code) * scale.inverse - value;
        sum += error * error;
      }
    }
    return sum;
  }

  const GroupCoding& coding_;
  formats::Format format_;
  formats::Coder coder_;
  std::optional<formats::Coder> scales_;  // of scales in bytes
  float max_value_;
  NvTensorScale tensor_ = {1, 1};
};

// Writes rows of codes.
class RowEncoder {
 public:
  RowEncoder(const GroupCoding& coding, const QuantizedView& out)
      : coding_(coding), out_(out), coder_(out.layout.format) {}

  void write(const float* values, int64_t row, std::vector<uint32_t>& random) const {
    const auto columns = static_cast<size_t>(out_.shape[1]);
    auto* bytes = out_.data.as<uint8_t>() + row * out_.data.strides[0];
    if (!coding_.stochastic) return coder_.encode_run(values, columns, bytes);
    random.resize(columns);
    formats::fill_random(random.data(), columns, coding_.key,
                         coding_.first + static_cast<uint64_t>(row) * columns);
    coder_.encode_run(values, random.data(), columns, bytes);
  }

 private:
  const GroupCoding& coding_;
  const QuantizedView& out_;
  formats::Coder coder_;
};

// Scales the values of one row of groups and writes their scales.
void scale_groups(const GroupScaler& scaler, std::vector<float>& values, int64_t index,
                  int64_t height, ScaleGroup group, const QuantizedView& out) {
  const int64_t columns = out.shape[1], across = divide_up(columns, group.columns);
  for (int64_t at = 0; at < across; ++at) {
    const int64_t left = at * group.columns, width = std::min(group.columns, columns - left);
    uint32_t amax = 0;
    for (int64_t row = 0; row < height; ++row)
      amax = std::max(amax, magnitude_bits(values.data() + row * columns + left, width));
    const CodedScale scale = scaler.scale_of(formats::float_from_bits(amax),
                                             {values.data() + left, height, width, columns});
    if (out.scale_inv.dtype == DType::f32) {
      out.scale_inv.as<float>()[index * across + at] = scale.scale_inv;
    } else {
      out.scale_inv.as<uint8_t>()[index * across + at] = scale.code;
    }
    for (int64_t row = 0; row < height; ++row) {
      float* run = values.data() + row * columns + left;
      for (int64_t i = 0; i < width; ++i) run[i] = run[i] * scale.first * scale.second;
    }
  }
}

void quantize_values(const TensorView& x, const GroupCoding& coding, const QuantizedView& out) {
  const int64_t rows = x.shape[0], columns = x.shape[1];
  const ScaleGroup group = sized_group(x.shape, out.layout.group);
  const GroupScaler scaler(x, coding, out);
  const RowEncoder encoder(coding, out);
  // Whole groups, and as many rows as a transposed matrix is read at a time.
  const int64_t groups = group.rows < band_rows ? band_rows / group.rows : 1;
  const int64_t band = groups * group.rows;
  parallel_for(divide_up(rows, band), 1, [&](int64_t begin, int64_t end) {
    std::vector<float> read(static_cast<size_t>(band * columns)), values;
    std::vector<uint32_t> random;
    for (int64_t top = begin * band; top < std::min(rows, end * band); top += band) {
      const int64_t height = std::min(band, rows - top);
      read_band(x, top, height, read.data());
      for (int64_t first = 0; first < height; first += group.rows) {
        const int64_t count = std::min(group.rows, height - first);
        values.assign(read.begin() + first * columns, read.begin() + (first + count) * columns);
        scale_groups(scaler, values, (top + first) / group.rows, count, group, out);
        for (int64_t row = 0; row < count; ++row)
          encoder.write(values.data() + row * columns, top + first + row, random);
      }
    }
  });
}

}  // namespace

void quantize_coded(TensorView x, const GroupCoding& coding, const QuantizedView& out) {
  if (coding.hadamard == 0) return quantize_values(x, coding, out);
  std::vector<bf16> values = transformed(x, coding);
  const TensorView dense{.data = values.data(),
                         .dtype = DType::bf16,
                         .shape = x.shape,
                         .strides = {x.shape[1], 1},
                         .present = true};
  quantize_values(dense, coding, out);
}

}  // namespace binade::backend::cpu
