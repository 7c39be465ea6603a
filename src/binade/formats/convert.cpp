#include "binade/formats/convert.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <tuple>
#include <type_traits>

#include "binade/base/error.h"
#include "binade/formats/convert_bf16.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "binade/formats/convert.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// Must come after foreach_target.h.
#include "binade/formats/convert-inl.h"

#ifndef BINADE_FORMATS_CONVERT_ONCE
#define BINADE_FORMATS_CONVERT_ONCE
namespace binade::formats {

// The conversions of one type, compiled for one instruction set.
template <class T>
struct Kernels {
  void (*widen)(const T* src, float* dst, size_t n);
  void (*narrow)(const float* src, T* dst, size_t n, Rounding rounding, Overflow overflow);
  void (*narrow_stochastic)(const float* src, const uint32_t* random, T* dst, size_t n,
                            Overflow overflow);
};

struct AllKernels {
  std::tuple<Kernels<f16>, Kernels<bf16>, Kernels<e4m3>, Kernels<e4m3fnuz>, Kernels<e5m2>,
             Kernels<e8m0>>
      types;
  void (*round_tf32)(const float* src, float* dst, size_t n);
  size_t (*fill_random)(uint32_t* random, size_t blocks, random::Key key, uint64_t first);
};

// The value of every 8-bit code.
template <const Format& F>
inline constexpr std::array<float, 256> decoded = [] {
  std::array<float, 256> values{};
  for (uint32_t code = 0; code < 256; ++code) values[code] = decode<F>(code);
  return values;
}();

}  // namespace binade::formats
#endif

HWY_BEFORE_NAMESPACE();
namespace binade::formats::HWY_NAMESPACE {
namespace {

// Maximum number of float lanes in a block: four vectors.
constexpr size_t max_block = 4 * HWY_MAX_BYTES / sizeof(float);

// Calls block(src, dst) for every `size` elements; the remainder goes through padded copies.
template <class Src, class Dst, class Block>
HWY_INLINE void for_blocks(const Src* src, Dst* dst, size_t n, size_t size, Block block) {
  size_t i = 0;
  for (; i + size <= n; i += size) block(src + i, dst + i);
  if (i == n) return;
  Src padded[max_block] = {};
  Dst result[max_block];
  std::copy(src + i, src + n, padded);
  block(padded, result);
  std::copy(result, result + (n - i), dst + i);
}

// A table indexed by the 8-bit code is faster than arithmetic on vectors of only four lanes.
template <const Format& F>
void widen_by_table(const Number<F>* src, float* dst, size_t n) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    uint64_t codes;
    std::memcpy(&codes, src + i, 8);
    for (size_t k = 0; k < 8; ++k) dst[i + k] = decoded<F>[codes >> (8 * k) & 0xff];
  }
  for (; i < n; ++i) dst[i] = decoded<F>[src[i].bits];
}

template <const Format& F>
void widen_array(const Number<F>* src, float* dst, size_t n) {
  if constexpr (F.bits() == 8 && HWY_MAX_BYTES == 16) {
    widen_by_table(src, dst, n);
  } else {
    const hn::ScalableTag<float> d;
    const size_t lanes = hn::Lanes(d);
    for_blocks(src, dst, n, 2 * lanes, [=](const Number<F>* in, float* out) HWY_ATTR {
      hn::StoreU(load_f32(d, in), d, out);
      hn::StoreU(load_f32(d, in + lanes), d, out + lanes);
    });
  }
}

// Packs two vectors of codes into one of 16-bit codes, or four into one of 8-bit codes.
template <const Format& F, class D, class Code>
HWY_INLINE void store_packed(D d, Number<F>* dst, Code code) {
  const hn::Repartition<uint16_t, D> d16;
  const size_t lanes = hn::Lanes(d);
  const auto pair = [&](size_t i) HWY_ATTR {
    return hn::ConcatEven(d16, hn::BitCast(d16, code(i + lanes)), hn::BitCast(d16, code(i)));
  };
  if constexpr (F.bits() == 16) {
    hn::StoreU(pair(0), d16, &dst->bits);
  } else {
    const hn::Repartition<uint8_t, D> d8;
    const auto low = pair(0), high = pair(2 * lanes);
    hn::StoreU(hn::ConcatEven(d8, hn::BitCast(d8, high), hn::BitCast(d8, low)), d8, &dst->bits);
  }
}

template <const Format& F, Rounding R, Overflow O>
void narrow_array_as(const float* src, Number<F>* dst, size_t n) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  constexpr bool plain = R == Rounding::nearest_even && O == Overflow::special;
  if constexpr (plain && native_f16 && F == spec::f16) {
    for_blocks(src, dst, n, 2 * lanes, [=](const float* in, Number<F>* out) HWY_ATTR {
      store_f32(hn::LoadU(d, in), d, out);
      store_f32(hn::LoadU(d, in + lanes), d, out + lanes);
    });
  } else if constexpr (plain && F == spec::bf16) {
    const hn::Repartition<uint16_t, decltype(d)> d16;
    for_blocks(src, dst, n, 2 * lanes, [=](const float* in, Number<F>* out) HWY_ATTR {
      const auto low = hn::BitCast(d16, round_lanes_bf16(d, hn::LoadU(d, in)));
      const auto high = hn::BitCast(d16, round_lanes_bf16(d, hn::LoadU(d, in + lanes)));
      hn::StoreU(hn::ConcatOdd(d16, high, low), d16, &out->bits);
    });
  } else {
    const size_t block = lanes * sizeof(float) / sizeof(Number<F>);
    for_blocks(src, dst, n, block, [=](const float* in, Number<F>* out) HWY_ATTR {
      store_packed(d, out, [=](size_t i) HWY_ATTR {
        return encode_lanes<F, R, O>(d, hn::LoadU(d, in + i));
      });
    });
  }
}

template <const Format& F>
void narrow_array(const float* src, Number<F>* dst, size_t n, Rounding rounding,
                  Overflow overflow) {
  constexpr auto nearest = Rounding::nearest_even, zero = Rounding::toward_zero;
  constexpr auto special = Overflow::special, saturate = Overflow::saturate;
  if (rounding == nearest && overflow == special) narrow_array_as<F, nearest, special>(src, dst, n);
  if (rounding == nearest && overflow == saturate)
    narrow_array_as<F, nearest, saturate>(src, dst, n);
  if (rounding == zero && overflow == special) narrow_array_as<F, zero, special>(src, dst, n);
  if (rounding == zero && overflow == saturate) narrow_array_as<F, zero, saturate>(src, dst, n);
}

template <const Format& F, Overflow O>
void narrow_array_stochastic_as(const float* src, const uint32_t* random, Number<F>* dst,
                                size_t n) {
  size_t i = 0;
  // e8m0 is only used for scales, which are few: the scalar loop below suffices.
  if constexpr (F.specials != Specials::exponent_only) {
    const hn::ScalableTag<float> d;
    const hn::RebindToUnsigned<decltype(d)> du;
    const size_t lanes = hn::Lanes(d);
    for (; i + lanes <= n; i += lanes) {
      const auto v = hn::LoadU(d, src + i);
      store_codes(encode_lanes_stochastic<F, O>(d, v, hn::LoadU(du, random + i)), d, dst + i);
    }
  }
  for (; i < n; ++i) {
    const uint32_t code = encode<F>(src[i], Rounding::stochastic, O, random[i]);
    dst[i].bits = static_cast<typename Number<F>::Bits>(code);
  }
}

template <const Format& F>
void narrow_array_stochastic(const float* src, const uint32_t* random, Number<F>* dst, size_t n,
                             Overflow overflow) {
  if (overflow == Overflow::special)
    narrow_array_stochastic_as<F, Overflow::special>(src, random, dst, n);
  else
    narrow_array_stochastic_as<F, Overflow::saturate>(src, random, dst, n);
}

void round_array_tf32(const float* src, float* dst, size_t n) {
  const hn::ScalableTag<float> d;
  for_blocks(src, dst, n, hn::Lanes(d), [d](const float* in, float* out) HWY_ATTR {
    const auto v = hn::LoadU(d, in);
    const auto code = encode_lanes<spec::tf32, Rounding::nearest_even, Overflow::special>(d, v);
    hn::StoreU(decode_lanes<spec::tf32>(d, code), d, out);
  });
}

// The words of blocks [first, first + blocks), as many at a time as there are 64-bit lanes: each
// word of a counter has the lower half of a lane. Returns how many blocks it filled.
size_t fill_random_blocks(uint32_t* random, size_t blocks, random::Key key, uint64_t first) {
  const hn::ScalableTag<uint64_t> d;
  const hn::Repartition<uint32_t, decltype(d)> words;
  const size_t lanes = hn::Lanes(d);
  const auto low = hn::Set(d, 0xFFFFFFFFu);
  const auto multiply = [=](hn::Vec<decltype(d)> v, uint32_t factor) HWY_ATTR {
    return hn::MulEven(hn::BitCast(words, v), hn::Set(words, factor));
  };
  size_t at = 0;
  for (; at + lanes <= blocks; at += lanes) {
    const auto index = hn::Add(hn::Iota(d, 0), hn::Set(d, first + at));
    auto c0 = index, c1 = hn::ShiftRight<32>(index);
    auto c2 = hn::Set(d, key.stream & 0xFFFFFFFFu), c3 = hn::Set(d, key.stream >> 32);
    uint32_t k0 = static_cast<uint32_t>(key.seed), k1 = static_cast<uint32_t>(key.seed >> 32);
    for (int round = 0; round < 10; ++round) {
      const auto a = multiply(c0, 0xD2511F53u), b = multiply(c2, 0xCD9E8D57u);
      c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(b), c1), hn::Set(d, uint64_t{k0}));
      c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(a), c3), hn::Set(d, uint64_t{k1}));
      c1 = b;
      c3 = a;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    const auto pair = [=](hn::Vec<decltype(d)> even, hn::Vec<decltype(d)> odd)
                          HWY_ATTR { return hn::Or(hn::And(even, low), hn::ShiftLeft<32>(odd)); };
    // Two 64-bit halves of each block, one after the other.
    const auto first_half = pair(c0, c1), second_half = pair(c2, c3);
    HWY_ALIGN uint64_t first_halves[HWY_MAX_BYTES / 8], second_halves[HWY_MAX_BYTES / 8];
    hn::Store(first_half, d, first_halves);
    hn::Store(second_half, d, second_halves);
    for (size_t i = 0; i < lanes; ++i) {
      std::memcpy(random + 4 * (at + i), first_halves + i, 8);
      std::memcpy(random + 4 * (at + i) + 2, second_halves + i, 8);
    }
  }
  return at;
}

template <const Format& F>
constexpr Kernels<Number<F>> kernels_of() {
  return {widen_array<F>, narrow_array<F>, narrow_array_stochastic<F>};
}

const AllKernels& kernels() {
  static constexpr AllKernels all = {
      {kernels_of<spec::f16>(), kernels_of<spec::bf16>(), kernels_of<spec::e4m3>(),
       kernels_of<spec::e4m3fnuz>(), kernels_of<spec::e5m2>(), kernels_of<spec::e8m0>()},
      round_array_tf32,
      fill_random_blocks};
  return all;
}

}  // namespace
}  // namespace binade::formats::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace binade::formats {

HWY_EXPORT(kernels);

namespace {

// Looked up on every call, because tests switch the instruction set.
template <class T>
const Kernels<T>& kernels_for() {
  return std::get<Kernels<T>>(HWY_DYNAMIC_DISPATCH(kernels)().types);
}

// A global rather than a static in narrow(), where the initialization check would slow down short
// rows. Before it is initialized, the generic path gives the same bits.
const NarrowBf16 native_bf16 = native_narrow_bf16();

}  // namespace

void fill_random(uint32_t* random, size_t n, random::Key key, uint64_t first) {
  size_t i = 0;
  while (i < n) {
    const uint64_t index = first + i;
    if (index % 4 == 0 && n - i >= 4) {
      const size_t blocks = (n - i) / 4;
      const size_t filled =
          HWY_DYNAMIC_DISPATCH(kernels)().fill_random(&random[i], blocks, key, index / 4);
      i += 4 * filled;
      if (filled > 0) continue;
    }
    const auto words = random::block(key.seed, key.stream, index / 4);
    for (size_t word = index % 4; word < 4 && i < n; ++word) random[i++] = words[word];
  }
}

template <class T>
void widen(const T* src, float* dst, size_t n) {
  kernels_for<T>().widen(src, dst, n);
}

template <class T>
void narrow(const float* src, T* dst, size_t n, Rounding rounding, Overflow overflow) {
  if (rounding == Rounding::stochastic) {
    fail("narrow", {.argument = "rounding",
                    .expected = "nearest_even or toward_zero",
                    .found = "stochastic",
                    .hint = "narrow_stochastic takes the key of the random bits"});
  }
  if constexpr (std::is_same_v<T, bf16>) {
    if (native_bf16 != nullptr && rounding == Rounding::nearest_even &&
        overflow == Overflow::special)
      return native_bf16(src, dst, n);
  }
  kernels_for<T>().narrow(src, dst, n, rounding, overflow);
}

template <class T>
void narrow_stochastic(const float* src, T* dst, size_t n, random::Key key, uint64_t offset,
                       Overflow overflow) {
  constexpr size_t chunk = 1024;
  uint32_t random[chunk];
  for (size_t begin = 0; begin < n; begin += chunk) {
    const size_t count = std::min(chunk, n - begin);
    fill_random(random, count, key, offset + begin);
    kernels_for<T>().narrow_stochastic(src + begin, random, dst + begin, count, overflow);
  }
}

void round_tf32(const float* src, float* dst, size_t n) {
  HWY_DYNAMIC_DISPATCH(kernels)().round_tf32(src, dst, n);
}

template void widen(const f16*, float*, size_t);
template void widen(const bf16*, float*, size_t);
template void widen(const e4m3*, float*, size_t);
template void widen(const e4m3fnuz*, float*, size_t);
template void widen(const e5m2*, float*, size_t);
template void widen(const e8m0*, float*, size_t);

template void narrow(const float*, f16*, size_t, Rounding, Overflow);
template void narrow(const float*, bf16*, size_t, Rounding, Overflow);
template void narrow(const float*, e4m3*, size_t, Rounding, Overflow);
template void narrow(const float*, e4m3fnuz*, size_t, Rounding, Overflow);
template void narrow(const float*, e5m2*, size_t, Rounding, Overflow);
template void narrow(const float*, e8m0*, size_t, Rounding, Overflow);

template void narrow_stochastic(const float*, f16*, size_t, random::Key, uint64_t, Overflow);
template void narrow_stochastic(const float*, bf16*, size_t, random::Key, uint64_t, Overflow);
template void narrow_stochastic(const float*, e4m3*, size_t, random::Key, uint64_t, Overflow);
template void narrow_stochastic(const float*, e4m3fnuz*, size_t, random::Key, uint64_t, Overflow);
template void narrow_stochastic(const float*, e5m2*, size_t, random::Key, uint64_t, Overflow);
template void narrow_stochastic(const float*, e8m0*, size_t, random::Key, uint64_t, Overflow);

}  // namespace binade::formats
#endif
