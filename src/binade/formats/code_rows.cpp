#include "binade/formats/code_rows.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "binade/formats/code_rows.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace binade::formats::detail::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Words = hn::RebindToUnsigned<Floats>;
using Integers = hn::RebindToSigned<Floats>;
using Word = hn::Vec<Words>;

// The bits around a format's magnitudes.
struct Signs {
  explicit Signs(const Fields& fields)
      : bits(31 - __builtin_clz(fields.sign_mask) + 1),
        is_integer(fields.specials == Specials::integer),
        keeps_zero(fields.specials != Specials::unsigned_zero) {}

  int bits;  // of the format
  bool is_integer, keeps_zero;
};

// Magnitudes of up to 2^28 with the signs of `bits`.
HWY_INLINE Word with_signs(const Fields& fields, const Signs& signs, Word bits, Word magnitude) {
  const Words du;
  const Integers di;
  const auto mask = hn::Set(du, fields.sign_mask);
  const auto is_negative = hn::RebindMask(du, hn::Lt(hn::BitCast(di, bits), hn::Zero(di)));
  if (signs.is_integer) {
    const auto all = hn::Set(du, (fields.sign_mask << 1) - 1);
    const auto negative = hn::And(hn::Sub(hn::Zero(du), magnitude), all);
    return hn::IfThenElse(is_negative, negative, magnitude);
  }
  const auto negative = hn::Or(magnitude, mask);
  if (signs.keeps_zero) return hn::IfThenElse(is_negative, negative, magnitude);
  const auto is_nonzero = hn::Ne(magnitude, hn::Zero(du));
  return hn::IfThenElse(hn::And(is_negative, is_nonzero), negative, magnitude);
}

// Rounds magnitudes to nearest even. Adding a power of two whose last bit is the last one kept
// rounds a value; what the sum's bits exceed the power's by is the number of units in the last
// place.
class Nearest {
 public:
  explicit Nearest(const Fields& fields)
      : dropped_(23 - fields.mantissa_bits),
        lowest_(static_cast<uint32_t>(fields.min_exponent + 127) << 23),
        largest_(float_bits(decode_fields(fields, fields.max_code))) {}

  HWY_INLINE Word operator()(Word magnitude, Word /*random*/) const {
    const Floats d;
    const Words du;
    const auto bounded = hn::Min(magnitude, hn::Set(du, largest_));
    const auto lowest = hn::Set(du, lowest_);
    const auto exponent = hn::Max(hn::And(bounded, hn::Set(du, 0x7f800000u)), lowest);
    const auto aligner = hn::Add(exponent, hn::Set(du, static_cast<uint32_t>(dropped_) << 23));
    const auto sum = hn::Add(hn::BitCast(d, bounded), hn::BitCast(d, aligner));
    const auto units = hn::Sub(hn::BitCast(du, sum), aligner);
    return hn::Add(units, hn::ShiftRightSame(hn::Sub(exponent, lowest), dropped_));
  }

 private:
  int dropped_;
  uint32_t lowest_, largest_;
};

// Rounds magnitudes by random words: truncate() and the addition of encode_fields().
class ByRandom {
 public:
  explicit ByRandom(const Fields& fields) : fields_(fields) {}

  HWY_INLINE Word operator()(Word magnitude, Word random) const {
    const Words du;
    const Integers di;
    const int bits = fields_.mantissa_bits;
    const auto zero = hn::Zero(di), last = hn::Set(di, 31);
    const auto field = hn::BitCast(di, hn::ShiftRight<23>(magnitude));
    const auto hidden =
        hn::IfThenElseZero(hn::RebindMask(du, hn::Gt(field, zero)), hn::Set(du, 0x800000u));
    const auto significand = hn::Or(hn::And(magnitude, hn::Set(du, 0x7fffffu)), hidden);
    const auto exponent = hn::Max(field, hn::Set(di, 1));
    const auto kept_exponent = hn::Max(exponent, hn::Set(di, fields_.min_exponent + 127));
    const auto dropped = hn::Add(hn::Sub(kept_exponent, exponent), hn::Set(di, 23 - bits));
    const auto kept = hn::Shr(significand, hn::BitCast(du, hn::Min(dropped, last)));
    // The dropped bits, shifted to the top of the lane; up to 32 of them are kept exactly.
    const auto left = hn::Sub(hn::Set(di, 32), dropped);
    const auto up = hn::Shl(significand, hn::BitCast(du, hn::Min(hn::Max(left, zero), last)));
    const auto down = hn::BitCast(du, hn::Min(hn::Max(hn::Neg(left), zero), last));
    const auto rest = hn::Shr(up, down);
    const auto sum = hn::Add(rest, random);
    const auto carry = hn::IfThenElseZero(hn::Lt(sum, rest), hn::Set(du, 1u));
    const auto field_below = hn::ShiftLeftSame(
        hn::BitCast(du, hn::Add(kept_exponent, hn::Set(di, fields_.bias - 127 - 1))), bits);
    const auto code = hn::Add(hn::Add(field_below, kept), carry);
    return hn::Min(code, hn::Set(du, fields_.max_code));
  }

 private:
  const Fields& fields_;
};

// Writes round(magnitudes, random words) for each vector of values. False if a value is NaN.
template <class Round>
HWY_INLINE bool encode_by(const Fields& fields, const float* values, const uint32_t* random,
                          size_t count, uint8_t* codes) {
  const Words du;
  const Integers di;
  const Round round(fields);
  const hn::Rebind<uint8_t, Words> bytes;
  const size_t lanes = hn::Lanes(du);
  const Signs signs(fields);
  auto largest = hn::Zero(du);
  const auto encode = [&](Word bits, Word words, uint8_t* out) HWY_ATTR {
    const auto magnitude = hn::And(bits, hn::Set(du, 0x7fffffffu));
    largest = hn::Max(largest, magnitude);
    const auto code = with_signs(fields, signs, bits, round(magnitude, words));
    hn::StoreU(hn::DemoteTo(bytes, hn::BitCast(di, code)), bytes, out);
  };
  const Floats d;
  const auto none = hn::Zero(du);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes)
    encode(hn::BitCast(du, hn::LoadU(d, values + i)),
           random == nullptr ? none : hn::LoadU(du, random + i), codes + i);
  if (i < count) {
    constexpr size_t most = HWY_MAX_BYTES / sizeof(uint32_t);
    HWY_ALIGN float rest[most] = {};
    HWY_ALIGN uint32_t words[most] = {};
    std::copy(values + i, values + count, rest);
    if (random != nullptr) std::copy(random + i, random + count, words);
    encode(hn::BitCast(du, hn::Load(d, rest)), hn::Load(du, words), codes + i);
  }
  const auto infinity = hn::Set(di, 0x7f800000);
  return hn::AllFalse(di, hn::Gt(hn::BitCast(di, largest), infinity));
}

bool encode_row(const Fields& fields, const float* values, const uint32_t* random, size_t count,
                uint8_t* codes) {
  if (random == nullptr) return encode_by<Nearest>(fields, values, random, count, codes);
  return encode_by<ByRandom>(fields, values, random, count, codes);
}

bool decode_row(const Fields& fields, const uint8_t* codes, size_t count, float* values) {
  const Floats d;
  const Words du;
  const Integers di;
  const hn::Rebind<uint8_t, Words> bytes;
  const size_t lanes = hn::Lanes(du);
  const Signs signs(fields);
  const int top = 32 - signs.bits, shift = 23 - fields.mantissa_bits;
  const auto magnitudes = hn::Set(du, fields.magnitude_mask);
  const auto rebias = hn::Set(du, static_cast<uint32_t>(127 - fields.bias) << 23);
  const auto hidden = hn::Set(di, 1 << fields.mantissa_bits);
  const auto smallest = hn::Set(d, fields.smallest);
  const auto no_number = hn::Set(du, fields.sign_mask);
  auto largest = hn::Zero(du);
  auto is_nan = hn::MaskFromVec(hn::Zero(du));
  for (size_t i = 0; i < count; i += lanes) {
    const auto code = hn::PromoteTo(du, hn::LoadU(bytes, codes + i));
    hn::Vec<Floats> value;
    if (signs.is_integer) {
      const auto whole = hn::BitCast(di, hn::ShiftLeftSame(code, top));
      value = hn::ConvertTo(d, hn::ShiftRightSame(whole, top));
    } else {
      const auto magnitude = hn::And(code, magnitudes);
      largest = hn::Max(largest, magnitude);
      if (!signs.keeps_zero) is_nan = hn::Or(is_nan, hn::Eq(code, no_number));
      const auto normal = hn::Add(hn::ShiftLeftSame(magnitude, shift), rebias);
      const auto subnormal = hn::Mul(hn::ConvertTo(d, hn::BitCast(di, magnitude)), smallest);
      const auto is_small = hn::Lt(hn::BitCast(di, magnitude), hidden);
      const auto bits =
          hn::IfThenElse(hn::RebindMask(du, is_small), hn::BitCast(du, subnormal), normal);
      const auto sign = hn::ShiftLeftSame(hn::Xor(code, magnitude), top);
      value = hn::BitCast(d, hn::Or(bits, sign));
    }
    if (i + lanes <= count) {
      hn::StoreU(value, d, values + i);
    } else {
      HWY_ALIGN float rest[HWY_MAX_BYTES / sizeof(float)];
      hn::Store(value, d, rest);
      for (size_t k = i; k < count; ++k) values[k] = rest[k - i];
    }
  }
  const auto max_code = hn::Set(di, static_cast<int32_t>(fields.max_code));
  return hn::AllFalse(du, is_nan) && hn::AllFalse(di, hn::Gt(hn::BitCast(di, largest), max_code));
}

void pack_row(const uint8_t* codes, size_t count, uint8_t* bytes) {
  const hn::ScalableTag<uint16_t> d16;
  const hn::Repartition<uint8_t, decltype(d16)> d8;
  const size_t lanes = hn::Lanes(d8);
  const auto pair = [&](const uint8_t* from) HWY_ATTR {
    const auto two = hn::BitCast(d16, hn::LoadU(d8, from));
    return hn::BitCast(d8, hn::Or(two, hn::ShiftRight<4>(two)));
  };
  size_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes)
    hn::StoreU(hn::ConcatEven(d8, pair(codes + i + lanes), pair(codes + i)), d8, bytes + i / 2);
  for (; i < count; i += 2) bytes[i / 2] = static_cast<uint8_t>(codes[i] | codes[i + 1] << 4);
}

void unpack_row(const uint8_t* bytes, size_t count, uint8_t* codes) {
  const hn::ScalableTag<uint16_t> d16;
  const hn::Repartition<uint8_t, decltype(d16)> d8;
  const hn::Half<decltype(d8)> half;
  const size_t lanes = hn::Lanes(d8);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto both = hn::PromoteTo(d16, hn::LoadU(half, bytes + i / 2));
    const auto apart = hn::Or(both, hn::ShiftLeft<4>(both));
    hn::StoreU(hn::And(hn::BitCast(d8, apart), hn::Set(d8, 15)), d8, codes + i);
  }
  for (; i < count; i += 2) {
    codes[i] = bytes[i / 2] & 15;
    codes[i + 1] = bytes[i / 2] >> 4;
  }
}

const CodeRows* rows_of_codes() {
  static constexpr CodeRows all{encode_row, decode_row, pack_row, unpack_row};
  return &all;
}

}  // namespace
}  // namespace binade::formats::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace binade::formats::detail {

HWY_EXPORT(rows_of_codes);

// Looked up on every call, because tests switch the instruction set.
const CodeRows& code_rows() { return *HWY_DYNAMIC_DISPATCH(rows_of_codes)(); }

}  // namespace binade::formats::detail
#endif
