#include "binade/backend/cpu/quantize/coded.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "binade/backend/cpu/kernels.h"
#include "binade/backend/cpu/quantize/group_rows.h"
#include "binade/backend/quantize_scale.h"
#include "binade/base/division.h"
#include "binade/base/parallel.h"
#include "binade/formats/convert.h"

namespace binade::backend::cpu {
namespace {

constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

// Rows that a thread reads at a time: columns of a transposed matrix lie side by side.
constexpr int64_t band_rows = 32;

template <class T>
void widen_row(const T* in, int64_t count, float* out) {
  if constexpr (std::is_same_v<T, float>) {
    std::copy_n(in, count, out);
  } else if constexpr (sizeof(T) == 2) {
    formats::widen(in, out, static_cast<size_t>(count));
  } else {
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(in[i]);
  }
}

// Rows [top, top + height) of x, whose columns lie side by side, one after the other.
template <class T>
void transpose_band(const TensorView& x, int64_t top, int64_t height, T* out) {
  const T* in = x.as<T>() + top;
  const int64_t columns = x.shape[1], stride = x.strides[1];
  if constexpr (sizeof(T) == 2) {
    group_rows().transpose16(reinterpret_cast<const uint16_t*>(in), stride, height, columns,
                             reinterpret_cast<uint16_t*>(out), columns);
  } else if constexpr (std::is_same_v<T, float>) {
    group_rows().transpose32(reinterpret_cast<const uint32_t*>(in), stride, height, columns,
                             reinterpret_cast<uint32_t*>(out), columns);
  } else {
    for (int64_t column = 0; column < columns; ++column) {
      for (int64_t row = 0; row < height; ++row)
        out[row * columns + column] = in[column * stride + row];
    }
  }
}

// Rows [top, top + height) of x as f32, one after the other.
void read_band(const TensorView& x, int64_t top, int64_t height, float* out) {
  const int64_t columns = x.shape[1];
  dispatch(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* in = x.as<T>() + top * x.strides[0];
    if (x.strides[1] == 1) {
      for (int64_t row = 0; row < height; ++row, in += x.strides[0], out += columns)
        widen_row(in, columns, out);
    } else if (x.strides[0] == 1) {
      const auto band = std::make_unique_for_overwrite<T[]>(static_cast<size_t>(height * columns));
      transpose_band(x, top, height, band.get());
      widen_row(band.get(), height * columns, out);
    } else {
      for (int64_t row = 0; row < height; ++row, in += x.strides[0]) {
        for (int64_t i = 0; i < columns; ++i) *out++ = static_cast<float>(in[i * x.strides[1]]);
      }
    }
  });
}

// Multiplies runs of values by the orthonormal Hadamard matrix and rounds all to bf16.
void transform_row(float* values, int64_t count, const GroupCoding& coding, bf16* out) {
  const auto factor = static_cast<float>(1 / std::sqrt(static_cast<double>(coding.hadamard)));
  group_rows().hadamard(values, count, coding.hadamard, coding.signs, factor);
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
float largest_magnitude(TensorView x) {
  if (x.strides[0] == 1) {  // columns lie side by side
    std::swap(x.shape[0], x.shape[1]);
    std::swap(x.strides[0], x.strides[1]);
  }
  const int64_t rows = x.shape[0], columns = x.shape[1], bands = divide_up(rows, band_rows);
  std::vector<uint32_t> partial(static_cast<size_t>(bands));
  parallel_for(bands, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> values(static_cast<size_t>(columns));
    for (int64_t row = begin * band_rows; row < std::min(rows, end * band_rows); ++row) {
      read_band(x, row, 1, values.data());
      group_rows().raise(values.data(), columns, columns,
                         &partial[static_cast<size_t>(row / band_rows)]);
    }
  });
  return formats::float_from_bits(*std::max_element(partial.begin(), partial.end()));
}

// `height` rows of values, one after the other, that are one row of groups.
struct GroupsOfRows {
  float* values;
  int64_t height, columns;
  int64_t width;  // of a group

  int64_t across() const { return divide_up(columns, width); }
  float* row(int64_t index) const { return values + index * columns; }
};

// The scales of a row of groups: what is stored, and the two factors of values, because the scale
// of an MX group may exceed the range of f32.
struct CodedScales {
  std::vector<uint8_t> codes;    // of scale_inv, unless that is f32
  std::vector<float> scale_inv;  // if it is
  std::vector<float> first;
  std::vector<float> second;  // empty: 1

  explicit CodedScales(int64_t count)
      : codes(static_cast<size_t>(count)), scale_inv(codes.size()), first(codes.size(), 1.0f) {}
};

// Chooses scales of groups.
class GroupScaler {
 public:
  GroupScaler(const TensorView& x, const GroupCoding& coding, const QuantizedView& out)
      : coding_(coding),
        coder_(out.layout.format),
        max_value_(static_cast<float>(out.layout.format.max())),
        max_exponent_(out.layout.format.max_exponent()),
        one_factor_(out.layout.format.min_subnormal() >= 0x1p-90) {
    if (out.layout.scale.bits() <= 8) scales_.emplace(out.layout.scale);
    if (coding.rule != GroupRule::two_levels) return;
    // Beside the choice of 4, whose scale is larger by a half, the largest scale is 256.
    const double largest_scale = coding.four_over_six ? 256 : out.layout.scale.max();
    tensor_ = nv_tensor_scale(largest_magnitude(x), max_value_ * static_cast<float>(largest_scale));
    *out.outer_inv.as<float>() = tensor_.scale_inv;
  }

  CodedScales scales_of(const GroupsOfRows& groups) const {
    const int64_t across = groups.across();
    std::vector<uint32_t> bits(static_cast<size_t>(across));
    for (int64_t row = 0; row < groups.height; ++row)
      group_rows().raise(groups.row(row), groups.columns, groups.width, bits.data());
    std::vector<float> amax(bits.size());
    std::transform(bits.begin(), bits.end(), amax.begin(), formats::float_from_bits);
    switch (coding_.rule) {
      case GroupRule::largest:
      case GroupRule::power_of_two:
        return in_f32(amax);
      case GroupRule::two_levels:
        return two_levels(amax, groups);
      default:
        return powers_of_two(amax);
    }
  }

 private:
  void set_nan(CodedScales& scales, size_t group) const {
    scales.first[group] = not_a_number;
    scales.scale_inv[group] = not_a_number;
    if (scales_) scales.codes[group] = static_cast<uint8_t>(scales_->format().nan_code());
  }

  CodedScales in_f32(const std::vector<float>& amax) const {
    CodedScales scales(static_cast<int64_t>(amax.size()));
    const ScaleRule rule{.eps = coding_.eps,
                         .power_of_two = coding_.rule == GroupRule::power_of_two};
    for (size_t i = 0; i < amax.size(); ++i) {
      if (!finite(amax[i])) {
        set_nan(scales, i);
        continue;
      }
      scales.first[i] = scale_for(amax[i], max_value_, rule);
      scales.scale_inv[i] = 1 / scales.first[i];
    }
    return scales;
  }

  // Within the range of the scales' format.
  CodedScales powers_of_two(const std::vector<float>& amax) const {
    CodedScales scales(static_cast<int64_t>(amax.size()));
    const formats::Format& scale = scales_->format();
    const int least = scale.min_exponent(), most = scale.max_exponent(), bias = scale.bias();
    for (size_t i = 0; i < amax.size(); ++i) {
      if (!finite(amax[i])) {
        set_nan(scales, i);
        continue;
      }
      const int exponent = std::clamp(exponent_of(amax[i]), least, most);
      scales.codes[i] = static_cast<uint8_t>(exponent + bias);
      if (one_factor_ && std::abs(exponent) <= 126) {
        scales.first[i] = normal_power_of_two(-exponent);
        continue;
      }
      const MxScale factors = mx_scale_of(exponent);
      scales.second.resize(amax.size(), 1.0f);
      scales.first[i] = factors.first;
      scales.second[i] = factors.second;
    }
    return scales;
  }

  int exponent_of(float amax) const {
    if (amax == 0) return -127;
    if (coding_.rule == GroupRule::mx_floor) return exponent_below(amax) - max_exponent_;
    return coding_.rule == GroupRule::mx_round_up ? mx_round_up_exponent(amax, max_value_)
                                                  : mx_ceil_exponent(amax, max_exponent_);
  }

  CodedScales two_levels(const std::vector<float>& amax, const GroupsOfRows& groups) const {
    std::vector<float> inverse;
    CodedScales scales = nv_scales(amax, max_value_, inverse);
    if (coding_.four_over_six) {
      std::vector<float> wider_inverse;
      const CodedScales wider = nv_scales(amax, 4, wider_inverse);
      const std::vector<float> errors = squared_errors(groups, scales.first, inverse),
                               wider_errors = squared_errors(groups, wider.first, wider_inverse);
      for (size_t i = 0; i < amax.size(); ++i) {
        if (!(wider_errors[i] < errors[i])) continue;
        scales.codes[i] = wider.codes[i];
        scales.first[i] = wider.first[i];
      }
    }
    for (size_t i = 0; i < amax.size(); ++i) {
      if (!finite(amax[i])) set_nan(scales, i);
    }
    return scales;
  }

  // Of each group: the code of scale_inv, relative to the tensor's, the factor of values, and its
  // inverse. `largest` is the number that a group's largest one becomes.
  CodedScales nv_scales(std::vector<float> amax, float largest, std::vector<float>& inverse) const {
    CodedScales scales(static_cast<int64_t>(amax.size()));
    const float factor = tensor_.scale * (1 / largest);
    for (float& value : amax) value *= factor;
    scales_->encode_codes(amax.data(), nullptr, amax.size(), scales.codes.data());
    inverse.resize(amax.size());
    scales_->decode_codes(scales.codes.data(), amax.size(), inverse.data());
    constexpr float most = std::numeric_limits<float>::max();
    for (size_t i = 0; i < amax.size(); ++i) {
      inverse[i] *= tensor_.scale_inv;
      const float scale = 1 / inverse[i];
      scales.first[i] = finite(scale) ? scale : most;
    }
    return scales;
  }

  // The squared errors of each group's values, added in the order of its elements.
  std::vector<float> squared_errors(const GroupsOfRows& groups, const std::vector<float>& factors,
                                    const std::vector<float>& inverse) const {
    std::vector<float> sums(factors.size()), found(static_cast<size_t>(groups.columns));
    std::vector<uint8_t> codes(found.size());
    for (int64_t row = 0; row < groups.height; ++row) {
      const float* values = groups.row(row);
      std::copy_n(values, groups.columns, found.begin());
      group_rows().scale(found.data(), groups.columns, groups.width, factors.data());
      coder_.encode_codes(found.data(), nullptr, found.size(), codes.data());
      coder_.decode_codes(codes.data(), found.size(), found.data());
      group_rows().scale(found.data(), groups.columns, groups.width, inverse.data());
      for (int64_t left = 0, at = 0; left < groups.columns; left += groups.width, ++at) {
        const int64_t right = std::min(groups.columns, left + groups.width);
        float& sum = sums[static_cast<size_t>(at)];
        for (int64_t i = left; i < right; ++i) {
          const float error = found[static_cast<size_t>(i)] - values[i];
          sum += error * error;
        }
      }
    }
    return sums;
  }

  const GroupCoding& coding_;
  formats::Coder coder_;
  std::optional<formats::Coder> scales_;  // of scales in bytes
  float max_value_;
  int max_exponent_;
  // One factor scales as two do, unless that makes numbers that are subnormal in f32 and not far
  // below the format's smallest.
  bool one_factor_;
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

// Scales the values of row `index` of the groups and writes their scales.
void scale_groups(const GroupScaler& scaler, const GroupsOfRows& groups, int64_t index,
                  const QuantizedView& out) {
  const CodedScales scales = scaler.scales_of(groups);
  const int64_t across = groups.across();
  if (out.scale_inv.dtype == DType::f32) {
    std::copy_n(scales.scale_inv.begin(), across, out.scale_inv.as<float>() + index * across);
  } else {
    std::copy_n(scales.codes.begin(), across, out.scale_inv.as<uint8_t>() + index * across);
  }
  for (int64_t row = 0; row < groups.height; ++row) {
    group_rows().scale(groups.row(row), groups.columns, groups.width, scales.first.data());
    if (!scales.second.empty())
      group_rows().scale(groups.row(row), groups.columns, groups.width, scales.second.data());
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
  // Rows that lie side by side are read when their turn comes, so that they stay in the cache.
  const bool by_group = x.strides[1] == 1;
  const int64_t most = std::min(by_group ? group.rows : band, rows);
  parallel_for(divide_up(rows, band), 1, [&](int64_t begin, int64_t end) {
    std::vector<float> values(static_cast<size_t>(most * columns));
    std::vector<uint32_t> random;
    for (int64_t top = begin * band; top < std::min(rows, end * band); top += band) {
      const int64_t height = std::min(band, rows - top);
      if (!by_group) read_band(x, top, height, values.data());
      for (int64_t first = 0; first < height; first += group.rows) {
        const int64_t count = std::min(group.rows, height - first);
        if (by_group) read_band(x, top + first, count, values.data());
        const GroupsOfRows of_rows{.values = values.data() + (by_group ? 0 : first * columns),
                                   .height = count,
                                   .columns = columns,
                                   .width = group.columns};
        scale_groups(scaler, of_rows, (top + first) / group.rows, out);
        for (int64_t row = 0; row < of_rows.height; ++row)
          encoder.write(of_rows.row(row), top + first + row, random);
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
