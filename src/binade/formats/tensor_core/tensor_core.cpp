#include "binade/formats/tensor_core/tensor_core.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "binade/base/error.h"
#include "binade/formats/tensor_core/summand.h"

namespace binade::formats::tensor_core {
namespace {

std::optional<OperandKind> kind_of(const Format& format) {
  if (format == spec::f16 || format == spec::bf16) return OperandKind::half;
  if (format == spec::tf32) return OperandKind::tf32;
  if (format == spec::e4m3 || format == spec::e5m2) return OperandKind::fp8;
  return std::nullopt;
}

const Unit* find_unit(const Options& options) {
  const std::optional<OperandKind> a = kind_of(*options.a), b = kind_of(*options.b);
  const bool is_mixed = *options.a != *options.b && a != OperandKind::fp8;
  if (!a || a != b || is_mixed) return nullptr;
  const bool f16_alone = options.architecture < Architecture::ampere;
  if (f16_alone && *options.a != spec::f16) return nullptr;
  const auto* found = std::ranges::find_if(units, [&](const Unit& unit) {
    return unit.architecture == options.architecture && unit.operands == *a;
  });
  return found == std::end(units) ? nullptr : found;
}

// NaN or infinity as the result of special summands; nothing if all are finite.
class SpecialSum {
 public:
  void add(float summand) {
    has_nan_ |= std::isnan(summand);
    has_positive_ |= summand == HUGE_VALF;
    has_negative_ |= summand == -HUGE_VALF;
  }
  std::optional<float> result(Accumulator accumulator) const {
    if (has_nan_ || (has_positive_ && has_negative_))
      return accumulator == Accumulator::f16 ? nan_f16 : nan_f32;
    if (has_positive_) return HUGE_VALF;
    if (has_negative_) return -HUGE_VALF;
    return std::nullopt;
  }

 private:
  bool has_nan_ = false, has_positive_ = false, has_negative_ = false;
};

// A product of infinities, or of anything finite: only its class counts.
float special_product(float a, float b) {
  return std::isfinite(a) && std::isfinite(b) ? 0.0f : a * b;
}

// The summand in units of 2^(largest - F), cut toward zero.
int64_t aligned(int64_t significand, int fraction, int shift_right, int fraction_bits) {
  const int64_t magnitude = std::abs(significand) << std::max(fraction_bits - fraction, 0);
  const int shift = std::min(shift_right + std::max(fraction - fraction_bits, 0), 63);
  return significand < 0 ? -(magnitude >> shift) : magnitude >> shift;
}

void check_lengths(size_t a, size_t b) {
  if (a != b)
    fail("tensor core", {.argument = "b",
                         .expected = std::to_string(a) + " factors, as many as a has",
                         .found = std::to_string(b)});
}

}  // namespace

float operand(float x, const Format& format) {
  constexpr uint32_t tf32_mask = ~((uint32_t{1} << 13) - 1);
  if (format == spec::tf32) return float_from_bits(float_bits(x) & tf32_mask);
  if (!std::isfinite(x)) return x;
  const auto field = static_cast<int>(float_bits(x) >> 23 & 0xff);
  const int below = std::max(format.min_exponent() - std::max(field - 127, -126), 0);
  const int dropped = std::min(spec::f32.mantissa_bits - format.mantissa_bits + below, 31);
  const uint32_t significand = (float_bits(x) & 0x7fffff) | (field != 0 ? 0x800000 : 0);
  const bool is_held = (significand & ((uint32_t{1} << dropped) - 1)) == 0;
  if (!is_held || std::abs(x) > format.max())
    fail("tensor core", {.argument = "operand",
                         .expected = std::string("a number of ") + format.name,
                         .found = std::to_string(x),
                         .hint = "round it first"});
  return x;
}

TensorCore::TensorCore(const Options& options) : options_(options), unit_(find_unit(options)) {
  if (unit_ == nullptr)
    fail("tensor core", {.argument = "operands",
                         .expected = "formats that an instruction of this architecture multiplies",
                         .found = std::string(options.a->name) + " and " + options.b->name,
                         .hint = "unit.h lists the instructions"});
  if (options.promote_every < 0 || options.promote_every % unit_->products != 0)
    fail("tensor core", {.argument = "promote_every",
                         .expected = "a multiple of " + std::to_string(unit_->products),
                         .found = std::to_string(options.promote_every)});
}

float TensorCore::fused_sum(std::span<const float> a, std::span<const float> b, float c) const {
  check_lengths(a.size(), b.size());
  if (a.size() > static_cast<size_t>(unit_->products))
    fail("tensor core", {.argument = "a",
                         .expected = "at most " + std::to_string(unit_->products) + " factors",
                         .found = std::to_string(a.size()),
                         .hint = "dot() takes any number"});
  SpecialSum special;
  special.add(c);
  for (size_t k = 0; k < a.size(); ++k)
    special.add(special_product(operand(a[k], *options_.a), operand(b[k], *options_.b)));
  if (const auto result = special.result(options_.accumulator)) return *result;

  const auto factor = [this](float x, const Format& format) {
    return split_factor(operand(x, format), format, options_.zeros);
  };
  const Summand start = split_accumulator(c, options_);
  int32_t largest = std::max(start.exponent, least_exponent(*unit_, options_));
  for (size_t k = 0; k < a.size(); ++k)
    largest =
        std::max(largest, factor(a[k], *options_.a).exponent + factor(b[k], *options_.b).exponent);
  int64_t sum = aligned(start.significand, spec::f32.mantissa_bits, largest - start.exponent,
                        unit_->fraction_bits);
  const int fraction = options_.a->mantissa_bits + options_.b->mantissa_bits;
  for (size_t k = 0; k < a.size(); ++k) {
    const Summand x = factor(a[k], *options_.a), y = factor(b[k], *options_.b);
    sum += aligned(int64_t{x.significand} * y.significand, fraction,
                   largest - x.exponent - y.exponent, unit_->fraction_bits);
  }
  return round_sum(sum, largest - unit_->fraction_bits, unit_->kept_bits, options_.accumulator);
}

float TensorCore::dot(std::span<const float> a, std::span<const float> b, float c,
                      std::span<const float> factors) const {
  check_lengths(a.size(), b.size());
  const auto products = static_cast<size_t>(unit_->products);
  const auto chain = [&](size_t begin, size_t end, float sum) {
    for (size_t k = begin; k < end; k += products) {
      const size_t count = std::min(products, end - k);
      sum = fused_sum(a.subspan(k, count), b.subspan(k, count), sum);
    }
    return sum;
  };
  if (options_.promote_every == 0) return chain(0, a.size(), c);
  const auto block = static_cast<size_t>(options_.promote_every);
  for (size_t k = 0; k < a.size(); k += block) {
    const float factor = factors.empty() ? 1.0f : factors[k / block];
    c = std::fma(factor, chain(k, std::min(k + block, a.size()), 0.0f), c);
  }
  return c;
}

}  // namespace binade::formats::tensor_core
