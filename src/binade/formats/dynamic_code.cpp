#include "binade/formats/dynamic_code.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "binade/formats/dynamic_table.h"

namespace binade::formats {
namespace {

template <DynamicSign Sign>
void encode_block(const float* values, int64_t n, const DynamicBlocks& to) {
  float largest = 0, poison = 0;  // zero times a non-finite value is NaN
  for (int64_t i = 0; i < n; ++i) {
    largest = std::max(largest, std::fabs(values[i]));
    poison += values[i] * 0.0f;
  }
  const DynamicTable& table = dynamic_table<Sign>;
  const auto zero = static_cast<uint32_t>(table.zero);
  *to.scales = std::isnan(poison) ? std::numeric_limits<float>::quiet_NaN() : largest;
  if (largest == 0 || std::isnan(poison)) {
    std::fill_n(to.codes, n, static_cast<uint8_t>(zero));
    return;
  }
  // Not a factor, which would be infinite for the smallest scales.
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t nearest = nearest_number(table.cells, std::fabs(values[i]) / largest);
    to.codes[i] = dynamic_code<Sign>(values[i], nearest, zero);
  }
}

}  // namespace

std::span<const float, 256> dynamic_codes(DynamicSign sign) {
  return sign == DynamicSign::either ? dynamic_table<DynamicSign::either>.numbers
                                     : dynamic_table<DynamicSign::positive>.numbers;
}

void encode_dynamic(const float* values, int64_t n, const DynamicBlocks& to) {
  const auto encode = to.sign == DynamicSign::either ? encode_block<DynamicSign::either>
                                                     : encode_block<DynamicSign::positive>;
  for (int64_t at = 0; at < n; at += dynamic_block) {
    encode(values + at, std::min(dynamic_block, n - at),
           {to.codes + at, to.scales + at / dynamic_block, to.sign});
  }
}

void decode_dynamic(const DynamicBlocks& from, float* values, int64_t n) {
  const auto numbers = dynamic_codes(from.sign);
  for (int64_t i = 0; i < n; ++i)
    values[i] = numbers[from.codes[i]] * from.scales[i / dynamic_block];
}

}  // namespace binade::formats
