#include <algorithm>
#include <array>
#include <cmath>

#include "binade/formats/blocks/codecs.h"

// Blocks of 256 elements whose sub-blocks have scales of their own, which are codes, too. The
// quantizers search the scale of a sub-block that has the least weighted squared error; sums run in
// the order of elements, since the codes depend on it.
namespace binade::formats::blocks {
namespace {

constexpr size_t block_count = 256;

// To nearest even, by an addition that leaves no bits for fractions. Beyond 2^22 the result is
// arbitrary, but the same everywhere.
int nearest_integer(float x) {
  const auto bits = std::bit_cast<int32_t>(x + 12582912.0F);
  return (bits & 0x007fffff) - 0x00400000;
}

template <size_t N>
bool all_finite(const float* values) {
  return std::all_of(values, values + N, [](float x) { return std::isfinite(x); });
}

// ---- Q4_K: 8 sub-blocks of 32 with a scale and a minimum ----

constexpr size_t q4_count = 32, q4_blocks = block_count / q4_count;
constexpr int q4_max = 15, max_scale_code = 63;

using Q4Codes = std::array<int, q4_count>;

// A sub-block as scale * code - minimum.
struct ScaleAndMinimum {
  float scale = 0, minimum = 0;
};

// The search for the scale and minimum of one sub-block.
class Q4Search {
 public:
  explicit Q4Search(const float* values) : x_(values), low_(values[0]), high_(values[0]) {
    float squares = 0;
    for (size_t j = 0; j < q4_count; ++j) squares += x_[j] * x_[j];
    const float average = std::sqrt(squares / static_cast<float>(q4_count));
    for (size_t j = 0; j < q4_count; ++j) {
      weights_[j] = average + std::abs(x_[j]);
      low_ = std::min(low_, x_[j]);
      high_ = std::max(high_, x_[j]);
      weight_ += weights_[j];
      weighted_x_ += weights_[j] * x_[j];
    }
    low_ = std::min(low_, 0.0F);
  }

  ScaleAndMinimum run(Q4Codes& codes) {
    codes.fill(0);
    if (high_ == low_) return {0, -low_};
    constexpr auto steps = static_cast<float>(q4_max);
    const float inverse = steps / (high_ - low_);
    float scale = 1 / inverse;
    codes = codes_at(inverse);
    float best = error_of(codes, scale, low_);
    for (int i = 0; i <= 20; ++i) {
      const Q4Codes tried =
          codes_at((-1.0F + 0.1F * static_cast<float>(i) + steps) / (high_ - low_));
      const auto fitted = fit(tried);
      if (!fitted.valid) continue;
      const float error = error_of(tried, fitted.scale, fitted.low);
      if (!(error < best)) continue;
      codes = tried;
      best = error;
      scale = fitted.scale;
      low_ = fitted.low;  // further codes start from here
    }
    return {scale, -low_};
  }

 private:
  struct Fit {
    bool valid;
    float scale, low;
  };

  Q4Codes codes_at(float inverse) const {
    Q4Codes codes;
    for (size_t j = 0; j < q4_count; ++j)
      codes[j] = std::clamp(nearest_integer(inverse * (x_[j] - low_)), 0, q4_max);
    return codes;
  }

  float error_of(const Q4Codes& codes, float scale, float low) const {
    float sum = 0;
    for (size_t j = 0; j < q4_count; ++j) {
      const float difference = scale * static_cast<float>(codes[j]) + low - x_[j];
      sum += weights_[j] * (difference * difference);
    }
    return sum;
  }

  // Weighted least squares of x = scale * code + low, with low at most 0.
  Fit fit(const Q4Codes& codes) const {
    float l = 0, l2 = 0, xl = 0;
    for (size_t j = 0; j < q4_count; ++j) {
      const auto code = static_cast<float>(codes[j]);
      const float weighted = weights_[j] * code;
      l += weighted;
      l2 += weighted * code;
      xl += weighted * x_[j];
    }
    const float determinant = weight_ * l2 - l * l;
    if (!(determinant > 0)) return {false, 0, 0};
    const float scale = (weight_ * xl - weighted_x_ * l) / determinant;
    const float low = (l2 * weighted_x_ - l * xl) / determinant;
    if (low > 0) return {true, xl / l2, 0};
    return {true, scale, low};
  }

  const float* x_;
  float low_, high_;
  std::array<float, q4_count> weights_;
  float weight_ = 0, weighted_x_ = 0;  // sums
};

// Codes of 6 bits for the scales and minimums of 8 sub-blocks, in 12 bytes.
struct ScaleCodes {
  std::array<uint8_t, q4_blocks> scale, minimum;
};

void pack_scales(const ScaleCodes& codes, uint8_t* q) {
  std::fill(q, q + 12, uint8_t{0});
  for (size_t b = 0; b < 4; ++b) {
    const unsigned scale = codes.scale[b + 4], minimum = codes.minimum[b + 4];
    q[b] = static_cast<uint8_t>(codes.scale[b] | scale >> 4U << 6U);
    q[b + 4] = static_cast<uint8_t>(codes.minimum[b] | minimum >> 4U << 6U);
    q[b + 8] = static_cast<uint8_t>((scale & 15U) | (minimum & 15U) << 4U);
  }
}

ScaleCodes unpack_scales(const uint8_t* q) {
  ScaleCodes codes;
  for (size_t b = 0; b < 4; ++b) {
    codes.scale[b] = q[b] & 63U;
    codes.minimum[b] = q[b + 4] & 63U;
    codes.scale[b + 4] = static_cast<uint8_t>((q[b + 8] & 15U) | (unsigned{q[b]} >> 6U) << 4U);
    codes.minimum[b + 4] =
        static_cast<uint8_t>(unsigned{q[b + 8]} >> 4U | (unsigned{q[b + 4]} >> 6U) << 4U);
  }
  return codes;
}

uint8_t scale_code(float inverse, float value) {
  return static_cast<uint8_t>(std::min(max_scale_code, nearest_integer(inverse * value)));
}

// ---- Q6_K: 16 sub-blocks of 16 with a scale ----

constexpr size_t q6_count = 16, q6_blocks = block_count / q6_count;
constexpr int q6_offset = 32;
constexpr float negligible = 1e-15F;

using Q6Codes = std::array<int, q6_count>;

struct Q6Sums {
  float xl = 0, l2 = 0;  // of value * code and code^2, weighted by value^2
};

Q6Sums q6_codes_at(const float* x, float inverse, Q6Codes& codes) {
  Q6Sums sums;
  for (size_t j = 0; j < q6_count; ++j) {
    const int code = std::clamp(nearest_integer(inverse * x[j]), -q6_offset, q6_offset - 1);
    const auto l = static_cast<float>(code);
    const float weight = x[j] * x[j];
    sums.xl += weight * x[j] * l;
    sums.l2 += weight * l * l;
    codes[j] = code + q6_offset;
  }
  return sums;
}

float q6_scale(const float* x, Q6Codes& codes) {
  float extreme = 0;
  for (size_t j = 0; j < q6_count; ++j) {
    if (std::abs(x[j]) > std::abs(extreme)) extreme = x[j];
  }
  codes.fill(0);
  if (std::abs(extreme) < negligible) return 0;
  const Q6Sums first = q6_codes_at(x, -static_cast<float>(q6_offset) / extreme, codes);
  float scale = first.l2 != 0 ? first.xl / first.l2 : 0.0F;
  float best = scale * first.xl;
  Q6Codes tried;
  for (int i = -9; i <= 9; ++i) {
    if (i == 0) continue;
    const float steps = static_cast<float>(q6_offset) + 0.1F * static_cast<float>(i);
    const Q6Sums sums = q6_codes_at(x, -steps / extreme, tried);
    if (!(sums.l2 > 0 && sums.xl * sums.xl > best * sums.l2)) continue;
    codes = tried;
    scale = sums.xl / sums.l2;
    best = scale * sums.xl;
  }
  return scale;
}

// A block: 128 bytes of low halves, 64 of upper two bits, 16 scales, and the scale of scales.
constexpr size_t q6_high = 128, q6_scales = 192, q6_d = 208;

void pack_q6(const std::array<uint8_t, block_count>& codes, uint8_t* block) {
  for (size_t part = 0; part < 2; ++part) {
    const uint8_t* c = codes.data() + 128 * part;
    uint8_t* low = block + 64 * part;
    uint8_t* high = block + q6_high + 32 * part;
    for (size_t l = 0; l < 32; ++l) {
      low[l] = static_cast<uint8_t>((c[l] & 15U) | (c[l + 64] & 15U) << 4U);
      low[l + 32] = static_cast<uint8_t>((c[l + 32] & 15U) | (c[l + 96] & 15U) << 4U);
      high[l] = static_cast<uint8_t>(c[l] >> 4U | (c[l + 32] >> 4U) << 2U |
                                     (c[l + 64] >> 4U) << 4U | (c[l + 96] >> 4U) << 6U);
    }
  }
}

}  // namespace

bool quantize_q4_k(const float* values, uint8_t* block) {
  if (!all_finite<block_count>(values)) return false;
  std::array<Q4Codes, q4_blocks> codes;
  std::array<ScaleAndMinimum, q4_blocks> found;
  float max_scale = 0, max_minimum = 0;
  for (size_t b = 0; b < q4_blocks; ++b) {
    found[b] = Q4Search(values + q4_count * b).run(codes[b]);
    max_scale = std::max(max_scale, found[b].scale);
    max_minimum = std::max(max_minimum, found[b].minimum);
  }
  constexpr auto limit = static_cast<float>(max_scale_code);
  const float inverse_scale = max_scale > 0 ? limit / max_scale : 0.0F;
  const float inverse_minimum = max_minimum > 0 ? limit / max_minimum : 0.0F;
  ScaleCodes scales;
  for (size_t b = 0; b < q4_blocks; ++b) {
    scales.scale[b] = scale_code(inverse_scale, found[b].scale);
    scales.minimum[b] = scale_code(inverse_minimum, found[b].minimum);
  }
  if (!store_f16(max_scale / limit, block) || !store_f16(max_minimum / limit, block + 2))
    return false;
  pack_scales(scales, block + 4);
  for (size_t b = 0; b < q4_blocks; ++b) {
    const float scale = load_f16(block) * static_cast<float>(scales.scale[b]);
    if (scale == 0) continue;  // the codes of the search stay
    const float minimum = load_f16(block + 2) * static_cast<float>(scales.minimum[b]);
    for (size_t j = 0; j < q4_count; ++j)
      codes[b][j] =
          std::clamp(nearest_integer((values[q4_count * b + j] + minimum) / scale), 0, q4_max);
  }
  for (size_t pair = 0; pair < q4_blocks / 2; ++pair) {
    for (size_t j = 0; j < q4_count; ++j)
      block[16 + q4_count * pair + j] =
          static_cast<uint8_t>(codes[2 * pair][j] | codes[2 * pair + 1][j] << 4);
  }
  return true;
}

void dequantize_q4_k(const uint8_t* block, float* values) {
  const float d = load_f16(block), dmin = load_f16(block + 2);
  const ScaleCodes scales = unpack_scales(block + 4);
  for (size_t b = 0; b < q4_blocks; ++b) {
    const float scale = d * static_cast<float>(scales.scale[b]);
    const float minimum = dmin * static_cast<float>(scales.minimum[b]);
    const uint8_t* bytes = block + 16 + q4_count * (b / 2);
    for (size_t j = 0; j < q4_count; ++j) {
      const int code = b % 2 == 0 ? bytes[j] & 15 : bytes[j] >> 4;
      values[q4_count * b + j] = scale * static_cast<float>(code) - minimum;
    }
  }
}

// As Q4_K with a fifth bit: bit b of byte j is that of element j of sub-block b.
void dequantize_q5_k(const uint8_t* block, float* values) {
  const float d = load_f16(block), dmin = load_f16(block + 2);
  const ScaleCodes scales = unpack_scales(block + 4);
  const uint8_t* fifth = block + 16;
  for (size_t b = 0; b < q4_blocks; ++b) {
    const float scale = d * static_cast<float>(scales.scale[b]);
    const float minimum = dmin * static_cast<float>(scales.minimum[b]);
    const uint8_t* bytes = block + 48 + q4_count * (b / 2);
    for (size_t j = 0; j < q4_count; ++j) {
      const int low = b % 2 == 0 ? bytes[j] & 15 : bytes[j] >> 4;
      const int code = low | (fifth[j] >> b & 1) << 4;
      values[q4_count * b + j] = scale * static_cast<float>(code) - minimum;
    }
  }
}

bool quantize_q6_k(const float* values, uint8_t* block) {
  if (!all_finite<block_count>(values)) return false;
  std::array<uint8_t, block_count> codes;
  std::array<float, q6_blocks> scales;
  float largest = 0;
  for (size_t b = 0; b < q6_blocks; ++b) {
    Q6Codes found;
    scales[b] = q6_scale(values + q6_count * b, found);
    if (!std::isfinite(scales[b])) return false;  // sums of large values
    for (size_t j = 0; j < q6_count; ++j) codes[q6_count * b + j] = static_cast<uint8_t>(found[j]);
    if (std::abs(scales[b]) > std::abs(largest)) largest = scales[b];
  }
  if (std::abs(largest) < negligible) {
    std::fill(block, block + q6_d + 2, uint8_t{0});
    return true;
  }
  const float inverse = -128.0F / largest;
  if (!store_f16(1 / inverse, block + q6_d)) return false;
  for (size_t b = 0; b < q6_blocks; ++b) {
    const auto code = static_cast<int8_t>(std::min(127, nearest_integer(inverse * scales[b])));
    block[q6_scales + b] = static_cast<uint8_t>(code);
    const float scale = load_f16(block + q6_d) * static_cast<float>(code);
    if (scale == 0) continue;  // the codes of the search stay
    for (size_t j = q6_count * b; j < q6_count * (b + 1); ++j)
      codes[j] = static_cast<uint8_t>(
          std::clamp(nearest_integer(values[j] / scale), -q6_offset, q6_offset - 1) + q6_offset);
  }
  pack_q6(codes, block);
  return true;
}

void dequantize_q6_k(const uint8_t* block, float* values) {
  const float d = load_f16(block + q6_d);
  for (size_t i = 0; i < block_count; ++i) {
    // Of each half of 128, a byte of low bits serves elements 64 apart, one of high bits four that
    // are 32 apart.
    const size_t part = i / 128, l = i % 128;
    const unsigned low = block[64 * part + l % 64] >> (l / 64 * 4) & 15U;
    const unsigned high = block[q6_high + 32 * part + l % 32] >> (l / 32 * 2) & 3U;
    const auto code = static_cast<int>(low | high << 4U) - q6_offset;
    const auto scale = static_cast<int8_t>(block[q6_scales + i / q6_count]);
    values[i] = d * static_cast<float>(scale) * static_cast<float>(code);
  }
}

}  // namespace binade::formats::blocks
