// Vector loads and stores of small formats, for code compiled once per instruction set. Include
// this after hwy/foreach_target.h. load_f32 and store_f32 convert one full vector of float lanes
// and equal the scalar conversions of binade/formats/number.h bit for bit.

// Highway's toggling include guard: the file is included once per target.
#if defined(BINADE_FORMATS_CONVERT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BINADE_FORMATS_CONVERT_INL_H_
#undef BINADE_FORMATS_CONVERT_INL_H_
#else
#define BINADE_FORMATS_CONVERT_INL_H_
#endif

#include <cstdint>

#include "binade/formats/format.h"
#include "binade/formats/number.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace binade::formats::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Whether the instruction set has an f16 conversion that treats rounding, NaN and payloads as
// encode<F> does. (Highway's emulation for the others rounds toward zero.)
#if HWY_ARCH_ARM_A64 || (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && !defined(HWY_DISABLE_F16C))
inline constexpr bool native_f16 = true;
#else
inline constexpr bool native_f16 = false;
#endif

// A vector of 32-bit unsigned lanes, as many as D has float lanes.
template <class D>
using Unsigned = hn::Vec<hn::RebindToUnsigned<D>>;

// decode<F> in every lane.
template <const Format& F, class D>
HWY_INLINE hn::Vec<D> decode_lanes(D d, Unsigned<D> code) {
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  constexpr int shift = 23 - F.mantissa_bits;
  const auto f32_nan = hn::Set(du, 0x7fc00000u);
  const auto nan_code = hn::Set(du, static_cast<uint32_t>(F.nan_code()));

  if constexpr (F.specials == Specials::exponent_only) {
    auto bits = hn::ShiftLeft<23>(code);
    bits = hn::IfThenElse(hn::Eq(code, hn::Zero(du)), hn::Set(du, 0x400000u), bits);
    return hn::BitCast(d, hn::IfThenElse(hn::Eq(code, nan_code), f32_nan, bits));
  } else if constexpr (F.specials == Specials::ieee && F.exponent_bits == 8) {
    return hn::BitCast(d, hn::ShiftLeft<32 - F.bits()>(code));
  } else {
    const auto magnitude = hn::And(code, hn::Set(du, static_cast<uint32_t>(F.magnitude_mask())));
    const auto sign = hn::ShiftLeft<32 - F.bits()>(hn::Xor(code, magnitude));
    const auto shifted = hn::ShiftLeft<shift>(magnitude);
    const auto normal = hn::Add(shifted, hn::Set(du, static_cast<uint32_t>(127 - F.bias()) << 23));
    const auto subnormal = hn::Mul(hn::ConvertTo(d, hn::BitCast(di, magnitude)),
                                   hn::Set(d, static_cast<float>(F.min_subnormal())));
    const auto hidden = hn::Set(di, 1 << F.mantissa_bits);
    auto bits = hn::IfThenElse(hn::RebindMask(du, hn::Lt(hn::BitCast(di, magnitude), hidden)),
                               hn::BitCast(du, subnormal), normal);
    if constexpr (F.specials == Specials::ieee) {
      const auto signed_magnitude = hn::BitCast(di, magnitude);
      const auto infinity = hn::Set(di, static_cast<int32_t>(F.infinity_code()));
      const auto max_code = hn::Set(di, static_cast<int32_t>(F.max_code()));
      const auto is_special = hn::RebindMask(du, hn::Gt(signed_magnitude, max_code));
      const auto is_nan = hn::RebindMask(du, hn::Gt(signed_magnitude, infinity));
      bits = hn::Or(bits, hn::IfThenElseZero(is_special, hn::Set(du, 0x7f800000u)));
      bits = hn::Or(bits, hn::IfThenElseZero(is_nan, f32_nan));
    } else if constexpr (F.specials == Specials::finite) {
      bits = hn::IfThenElse(hn::Eq(magnitude, nan_code), f32_nan, bits);
    } else if constexpr (F.specials == Specials::unsigned_zero) {
      // The NaN code includes the sign bit, which must not reach the result.
      return hn::BitCast(d, hn::IfThenElse(hn::Eq(code, nan_code), f32_nan, hn::Or(bits, sign)));
    }
    return hn::BitCast(d, hn::Or(bits, sign));
  }
}

// The rounded code of a finite magnitude, before the overflow check: detail::truncate and the
// rounding that follows it in encode<F>.
template <const Format& F, Rounding R, class D>
HWY_INLINE Unsigned<D> round_lanes(D d, Unsigned<D> magnitude) {
  static_assert(R != Rounding::stochastic);
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  constexpr int shift = 23 - F.mantissa_bits;
  constexpr uint32_t below_half = (uint32_t{1} << (shift - 1)) - 1;

  if constexpr (F.specials == Specials::exponent_only) {
    if constexpr (R == Rounding::toward_zero) return hn::ShiftRight<23>(magnitude);
    // Ties round up; values below 1.5 * 2^-127, a subnormal f32, get the smallest code.
    const auto code = hn::ShiftRight<23>(hn::Add(magnitude, hn::Set(du, 0x400000u)));
    const auto smallest = hn::Lt(hn::BitCast(di, magnitude), hn::Set(di, 0x600000));
    return hn::IfThenZeroElse(hn::RebindMask(du, smallest), code);
  } else {
    constexpr uint32_t rebias = static_cast<uint32_t>(127 - F.bias()) << 23;
    auto normal = hn::Sub(magnitude, hn::Set(du, rebias));
    if constexpr (R == Rounding::nearest_even) {
      const auto odd = hn::ShiftRight<shift>(hn::And(magnitude, hn::Set(du, 1u << shift)));
      normal = hn::Add(hn::Add(normal, hn::Set(du, below_half)), odd);
    }
    normal = hn::ShiftRight<shift>(normal);
    if constexpr (F.exponent_bits == 8) return normal;

    // Adding 2^23 times the smallest subnormal aligns float's last bit with the format's.
    constexpr float aligner = static_cast<float>(F.min_subnormal() / spec::f32.epsilon());
    const auto exact = hn::BitCast(d, magnitude);
    const auto aligned = hn::Add(exact, hn::Set(d, aligner));
    auto subnormal = hn::Sub(hn::BitCast(du, aligned), hn::Set(du, float_bits(aligner)));
    if constexpr (R == Rounding::toward_zero) {
      const auto rose = hn::Gt(hn::Sub(aligned, hn::Set(d, aligner)), exact);
      subnormal =
          hn::Sub(subnormal, hn::And(hn::BitCast(du, hn::VecFromMask(d, rose)), hn::Set(du, 1u)));
    }
    const auto min_normal = hn::Set(di, (F.min_exponent() + 127) << 23);
    const auto is_small = hn::Lt(hn::BitCast(di, magnitude), min_normal);
    return hn::IfThenElse(hn::RebindMask(du, is_small), subnormal, normal);
  }
}

// round_lanes by stochastic rounding with 32 random bits in each lane.
template <const Format& F, class D>
HWY_INLINE Unsigned<D> round_lanes_stochastic(D /*d*/, Unsigned<D> magnitude, Unsigned<D> random) {
  static_assert(F.specials != Specials::exponent_only);
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  constexpr int shift = 23 - F.mantissa_bits;

  if constexpr (F.exponent_bits == 8) {
    return hn::ShiftRight<shift>(hn::Add(magnitude, hn::ShiftRight<32 - shift>(random)));
  } else {
    const auto zero = hn::Zero(di);
    const auto last = hn::Set(di, 31);
    const auto field = hn::BitCast(di, hn::ShiftRight<23>(magnitude));
    const auto fraction = hn::And(magnitude, hn::Set(du, 0x7fffffu));
    const auto hidden =
        hn::IfThenElseZero(hn::RebindMask(du, hn::Gt(field, zero)), hn::Set(du, 0x800000u));
    const auto significand = hn::Or(fraction, hidden);
    const auto exponent = hn::Max(field, hn::Set(di, 1));
    const auto kept_exponent = hn::Max(exponent, hn::Set(di, F.min_exponent() + 127));
    const auto dropped = hn::Add(hn::Sub(kept_exponent, exponent), hn::Set(di, shift));
    const auto kept = hn::Shr(significand, hn::BitCast(du, hn::Min(dropped, last)));
    // The dropped bits, shifted to the top of the lane; up to 32 of them are kept exactly.
    const auto left_shift = hn::Sub(hn::Set(di, 32), dropped);
    const auto up = hn::Shl(significand, hn::BitCast(du, hn::Max(left_shift, zero)));
    const auto down = hn::BitCast(du, hn::Min(hn::Max(hn::Neg(left_shift), zero), last));
    const auto rest = hn::Shr(up, down);
    const auto carry = hn::Lt(hn::Add(rest, random), rest);
    const auto field_below =
        hn::ShiftLeft<F.mantissa_bits>(hn::Add(kept_exponent, hn::Set(di, F.bias() - 127 - 1)));
    // A true mask lane is -1.
    return hn::Sub(hn::Add(hn::BitCast(du, field_below), kept), hn::VecFromMask(du, carry));
  }
}

// From the rounded magnitude to the finished code: overflow, NaN and sign.
template <const Format& F, Rounding R, Overflow O, class D>
HWY_INLINE Unsigned<D> finish_lanes(D d, Unsigned<D> bits, Unsigned<D> rounded) {
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  constexpr bool ieee = F.specials == Specials::ieee;
  constexpr bool truncates = R == Rounding::toward_zero;
  constexpr int max_code = static_cast<int>(F.max_code());
  // In every format the code after the largest number is the special value.
  constexpr int limit = O == Overflow::saturate || truncates ? max_code : max_code + 1;
  static_assert(max_code + 1 == static_cast<int>(ieee ? F.infinity_code() : F.nan_code()));

  auto code = hn::BitCast(du, hn::Min(hn::BitCast(di, rounded), hn::Set(di, limit)));
  if constexpr (truncates && O == Overflow::special) {
    const auto magnitude = hn::And(bits, hn::Set(du, 0x7fffffffu));
    const auto is_infinite = hn::Eq(magnitude, hn::Set(du, 0x7f800000u));
    code = hn::IfThenElse(is_infinite, hn::Set(du, static_cast<uint32_t>(max_code + 1)), code);
  }
  // If overflow gives NaN, the clamp above has already turned NaN inputs into NaN.
  if constexpr (ieee || limit == max_code) {
    auto nan = hn::Set(du, static_cast<uint32_t>(F.nan_code()));
    if constexpr (ieee) {
      const auto payload = hn::And(bits, hn::Set(du, 0x7fffffu));
      nan = hn::Or(nan, hn::ShiftRight<23 - F.mantissa_bits>(payload));
    }
    const auto v = hn::BitCast(d, bits);
    code = hn::IfThenElse(hn::RebindMask(du, hn::Eq(v, v)), code, nan);
  }

  if constexpr (F.specials == Specials::exponent_only) {
    const auto is_negative = hn::RebindMask(du, hn::Lt(hn::BitCast(d, bits), hn::Zero(d)));
    return hn::IfThenElse(is_negative, hn::Set(du, static_cast<uint32_t>(F.nan_code())), code);
  } else {
    const auto sign_mask = hn::Set(du, static_cast<uint32_t>(F.sign_mask()));
    auto sign = hn::And(hn::ShiftRight<32 - F.bits()>(bits), sign_mask);
    if constexpr (F.specials == Specials::unsigned_zero) {
      // Zero gets no sign, and NaN has it in its code.
      const auto unsigned_code = hn::Eq(hn::AndNot(sign_mask, code), hn::Zero(du));
      sign = hn::IfThenZeroElse(unsigned_code, sign);
    }
    return hn::Or(code, sign);
  }
}

// encode<F>(v, R, O) in every lane.
template <const Format& F, Rounding R, Overflow O, class D>
HWY_INLINE Unsigned<D> encode_lanes(D d, hn::Vec<D> v) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, v);
  const auto magnitude = hn::And(bits, hn::Set(du, 0x7fffffffu));
  return finish_lanes<F, R, O>(d, bits, round_lanes<F, R>(d, magnitude));
}

// encode<F>(v, Rounding::stochastic, O, random) in every lane.
template <const Format& F, Overflow O, class D>
HWY_INLINE Unsigned<D> encode_lanes_stochastic(D d, hn::Vec<D> v, Unsigned<D> random) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, v);
  const auto magnitude = hn::And(bits, hn::Set(du, 0x7fffffffu));
  return finish_lanes<F, Rounding::stochastic, O>(d, bits,
                                                  round_lanes_stochastic<F>(d, magnitude, random));
}

// v rounded to bf16, with the code in the upper half of each lane. Only a NaN could carry into the
// sign bit, and NaN takes the other branch.
template <class D>
HWY_INLINE Unsigned<D> round_lanes_bf16(D /*d*/, hn::Vec<D> v) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, v);
  const auto odd = hn::ShiftRight<16>(hn::And(bits, hn::Set(du, 0x10000u)));
  const auto rounded = hn::Add(hn::Add(bits, hn::Set(du, 0x7fffu)), odd);
  const auto quiet = hn::Or(bits, hn::Set(du, 0x400000u));
  return hn::IfThenElse(hn::RebindMask(du, hn::Eq(v, v)), rounded, quiet);
}

// Loads and stores codes, one per 32-bit lane.
template <const Format& F, class D>
HWY_INLINE Unsigned<D> load_codes(D /*d*/, const Number<F>* p) {
  const hn::Rebind<typename Number<F>::Bits, D> narrow;
  return hn::PromoteTo(hn::RebindToUnsigned<D>(), hn::LoadU(narrow, &p->bits));
}

template <const Format& F, class D>
HWY_INLINE void store_codes(Unsigned<D> code, D /*d*/, Number<F>* p) {
  const hn::Rebind<typename Number<F>::Bits, D> narrow;
  hn::StoreU(hn::DemoteTo(narrow, hn::BitCast(hn::RebindToSigned<D>(), code)), narrow, &p->bits);
}

// Loads Lanes(d) elements at p as float lanes; p need not be aligned.
template <class D>
HWY_INLINE hn::Vec<D> load_f32(D d, const float* p) {
  return hn::LoadU(d, p);
}

template <class D, const Format& F>
HWY_INLINE hn::Vec<D> load_f32(D d, const Number<F>* p) {
  if constexpr (native_f16 && F == spec::f16) {
    const hn::Rebind<hwy::float16_t, D> narrow;
    return hn::PromoteTo(d, hn::LoadU(narrow, reinterpret_cast<const hwy::float16_t*>(p)));
  } else if constexpr (F == spec::bf16 && HWY_MAX_BYTES == 16) {
    // Within one 128-bit block, interleaving with zeros both promotes and shifts.
    const hn::Repartition<uint16_t, D> full;
    const auto half = hn::LoadU(hn::Half<decltype(full)>(), &p->bits);
    return hn::BitCast(d,
                       hn::InterleaveLower(full, hn::Zero(full), hn::ZeroExtendVector(full, half)));
  } else {
    return decode_lanes<F>(d, load_codes(d, p));
  }
}

// Stores v, rounded to nearest even, to Lanes(d) elements at p. Overflow gives the special value.
template <class D>
HWY_INLINE void store_f32(hn::Vec<D> v, D d, float* p) {
  hn::StoreU(v, d, p);
}

template <class D, const Format& F>
HWY_INLINE void store_f32(hn::Vec<D> v, D d, Number<F>* p) {
  if constexpr (native_f16 && F == spec::f16) {
    const hn::Rebind<hwy::float16_t, D> narrow;
    hn::StoreU(hn::DemoteTo(narrow, v), narrow, reinterpret_cast<hwy::float16_t*>(p));
  } else if constexpr (F == spec::bf16) {
    store_codes(hn::ShiftRight<16>(round_lanes_bf16(d, v)), d, p);
  } else {
    store_codes(encode_lanes<F, Rounding::nearest_even, Overflow::special>(d, v), d, p);
  }
}

}  // namespace binade::formats::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BINADE_FORMATS_CONVERT_INL_H_
