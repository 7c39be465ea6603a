#include "binade/formats/weights/group_codecs.h"

#include <algorithm>
#include <cmath>

#include "binade/formats/codes.h"
#include "binade/formats/number.h"

namespace binade::formats::weights {
namespace {

// ---- int4: codes -8 to 7, stored with 8 added ----

constexpr float int4_offset = 8, int4_least = -8, int4_most = 7;

// Half of the range of codes, so that the largest magnitude lies between two codes: 7 holds it with
// an error of half a step, and -8 with one of half a step, too. In bf16, which the kernels of
// inference programs take; compressed-tensors' name for that is scale_dtype.
float int4_scale(float amax, float) {
  const auto scale = static_cast<float>(bf16(amax / ((int4_most - int4_least) / 2)));
  return scale == 0 ? 0x1p-7F : scale;  // bf16's epsilon
}

void encode_int4(std::span<const float> values, float scale, float, uint8_t* codes) {
  for (size_t i = 0; i < values.size(); ++i) {
    const float code = std::clamp(std::nearbyint(values[i] / scale), int4_least, int4_most);
    codes[i] = static_cast<uint8_t>(code + int4_offset);
  }
}

void decode_int4(std::span<const uint8_t> codes, float scale, float, float* values) {
  for (size_t i = 0; i < codes.size(); ++i)
    values[i] = (static_cast<float>(codes[i]) - int4_offset) * scale;
}

// ---- floats ----

const Coder& e2m1_coder() {
  static const Coder coder(spec::e2m1);
  return coder;
}

const Coder& e4m3_coder() {
  static const Coder coder(spec::e4m3);
  return coder;
}

// values / divisor in a format, one byte a code; saturates.
void encode_floats(const Coder& coder, std::span<const float> values, float divisor,
                   uint8_t* codes) {
  for (size_t i = 0; i < values.size(); ++i)
    codes[i] = static_cast<uint8_t>(
        coder.encode(values[i] / divisor, Rounding::nearest_even, Overflow::saturate));
}

void decode_floats(const Coder& coder, std::span<const uint8_t> codes, float factor,
                   float* values) {
  for (size_t i = 0; i < codes.size(); ++i) values[i] = coder.decode(codes[i]) * factor;
}

// ---- nvfp4: e2m1 codes, e4m3 scales of groups, which are multiples of 1 / the tensor's scale ----

constexpr float e2m1_max = 6, e4m3_max = 448;

// By the inverse, as PyTorch divides a number by a tensor.
float nvfp4_tensor_scale(float amax) {
  const float scale = 1 / amax * (e4m3_max * e2m1_max);
  return std::isfinite(scale) ? scale : 1;
}

float nvfp4_scale(float amax, float tensor_scale) {
  const float scale = tensor_scale * (amax / e2m1_max);
  const float stored =
      e4m3_coder().decode(e4m3_coder().encode(scale, Rounding::nearest_even, Overflow::saturate));
  return stored == 0 ? 0.125F : stored;  // e4m3's epsilon
}

void encode_nvfp4(std::span<const float> values, float scale, float tensor_scale, uint8_t* codes) {
  encode_floats(e2m1_coder(), values, scale / tensor_scale, codes);
}

void decode_nvfp4(std::span<const uint8_t> codes, float scale, float tensor_scale, float* values) {
  decode_floats(e2m1_coder(), codes, scale / tensor_scale, values);
}

// ---- fp8: e4m3 codes ----

float fp8_scale(float amax, float) {
  const float scale = amax / e4m3_max;
  return scale == 0 ? 0x1p-23F : scale;  // f32's epsilon
}

void encode_fp8(std::span<const float> values, float scale, float, uint8_t* codes) {
  encode_floats(e4m3_coder(), values, scale, codes);
}

void decode_fp8(std::span<const uint8_t> codes, float scale, float, float* values) {
  decode_floats(e4m3_coder(), codes, scale, values);
}

}  // namespace

const GroupCodec int4{4, nullptr, int4_scale, encode_int4, decode_int4};
const GroupCodec nvfp4{4, nvfp4_tensor_scale, nvfp4_scale, encode_nvfp4, decode_nvfp4};
const GroupCodec fp8{8, nullptr, fp8_scale, encode_fp8, decode_fp8};

}  // namespace binade::formats::weights
