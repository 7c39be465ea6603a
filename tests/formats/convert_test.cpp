#include "binade/formats/convert.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <vector>

#include "binade/base/error.h"
#include "binade/base/parallel.h"
#include "formats/reference.h"
#include "formats/targets.h"

namespace binade::formats {
namespace {

using testing::for_each_target;
using testing::from_bits;
using testing::Reference;
using testing::reference;
using testing::to_bits;

template <class T>
constexpr uint32_t code_of(float x, Rounding rounding, Overflow overflow, uint32_t random = 0) {
  return encode<format_of<T>>(x, rounding, overflow, random);
}

// One conversion mode and its first failing inputs.
struct Mode {
  Rounding rounding;
  Overflow overflow;
};
constexpr Mode modes[] = {{Rounding::nearest_even, Overflow::special},
                          {Rounding::nearest_even, Overflow::saturate},
                          {Rounding::toward_zero, Overflow::special},
                          {Rounding::toward_zero, Overflow::saturate}};

// Checks a range of magnitudes with both signs and in every mode: vector code against the
// reference, and for the plain mode scalar code too.
template <class T>
class Sweep {
 public:
  static constexpr size_t chunk = 4096;

  // Magnitudes first, first + stride, ... below last; all of them, NaNs included.
  size_t count_mismatches(uint64_t first, uint64_t last, uint32_t stride) {
    size_t mismatches = 0;
    while (first < last) {
      magnitudes_.clear();
      for (; first < last && magnitudes_.size() < chunk; first += stride)
        magnitudes_.push_back(static_cast<uint32_t>(first));
      for (const Mode& mode : modes) mismatches += check_mode(mode);
    }
    return mismatches;
  }

 private:
  size_t check_mode(const Mode& mode) {
    const size_t n = magnitudes_.size();
    expected_.resize(n);
    input_.resize(n);
    output_.resize(n);
    uint32_t hint = mode_hint_;
    for (size_t i = 0; i < n; ++i) {
      const float x = from_bits(magnitudes_[i]);
      if (std::isnan(x)) continue;
      hint = reference_.below(x, hint);
      expected_[i] = reference_.round(x, hint, mode.rounding, mode.overflow);
    }
    if (&mode == &modes[3]) mode_hint_ = hint;
    size_t mismatches = 0;
    for (bool negative : {false, true}) {
      for (size_t i = 0; i < n; ++i)
        input_[i] = from_bits(magnitudes_[i] | (negative ? 0x80000000u : 0));
      narrow(input_.data(), output_.data(), n, mode.rounding, mode.overflow);
      for (size_t i = 0; i < n; ++i) mismatches += !is_right(i, negative, mode);
    }
    return mismatches;
  }

  bool is_right(size_t i, bool negative, const Mode& mode) const {
    const uint32_t code = output_[i].bits;
    if (std::isnan(input_[i])) {
      return reference_.is_nan(code) && code == code_of<T>(input_[i], mode.rounding, mode.overflow);
    }
    if (&mode == &modes[0] && T(input_[i]).bits != code) return false;
    return code == reference_.with_sign(expected_[i], negative, magnitudes_[i] == 0);
  }

  const Reference& reference_ = reference<T>();
  uint32_t mode_hint_ = 0;
  std::vector<uint32_t> magnitudes_, expected_;
  std::vector<float> input_;
  std::vector<T> output_;
};

template <class T>
class Convert : public ::testing::Test {};
using Types = ::testing::Types<f16, bf16, e4m3, e4m3fnuz, e5m2, e8m0>;
TYPED_TEST_SUITE(Convert, Types);

TYPED_TEST(Convert, WidensEveryCode) {
  constexpr uint32_t codes = 1u << format_of<TypeParam>.bits();
  std::vector<TypeParam> src(codes);
  for (uint32_t code = 0; code < codes; ++code)
    src[code].bits = static_cast<typename TypeParam::Bits>(code);
  for_each_target([&] {
    std::vector<float> dst(codes);
    widen(src.data(), dst.data(), codes);
    for (uint32_t code = 0; code < codes; ++code)
      ASSERT_EQ(to_bits(dst[code]), to_bits(static_cast<float>(src[code]))) << code;
  });
}

TYPED_TEST(Convert, NarrowsLikeTheReference) {
  for_each_target(
      [] { EXPECT_EQ(Sweep<TypeParam>().count_mismatches(0, uint64_t{1} << 31, 1021), 0u); });
}

TYPED_TEST(Convert, NarrowsLikeTheReferenceAroundEveryBoundary) {
  const std::vector<float> inputs = testing::boundaries<TypeParam>();
  const Reference& r = reference<TypeParam>();
  std::vector<TypeParam> dst(inputs.size());
  for_each_target([&] {
    for (const Mode& mode : modes) {
      narrow(inputs.data(), dst.data(), inputs.size(), mode.rounding, mode.overflow);
      for (size_t i = 0; i < inputs.size(); ++i) {
        const uint32_t expected = r.encode(inputs[i], mode.rounding, mode.overflow);
        ASSERT_EQ(dst[i].bits, expected) << inputs[i];
      }
    }
  });
}

// Any length at any offset equals the scalar conversion and writes nothing beyond the end.
TYPED_TEST(Convert, TailsAndOffsets) {
  constexpr size_t longest = 150;
  std::vector<float> src(longest + 8);
  for (size_t i = 0; i < src.size(); ++i) src[i] = std::ldexp(1.0f + i / 256.0f, i % 24) - 300.0f;
  for_each_target([&] {
    for (size_t n = 0; n <= longest; ++n) {
      for (size_t offset : {0, 1, 3}) {
        const TypeParam untouched = TypeParam::from_bits(0x5a);
        std::vector<TypeParam> dst(longest + 8, untouched);
        narrow(src.data() + offset, dst.data() + offset, n);
        std::vector<float> back(longest + 8, -1.0f);
        widen(dst.data() + offset, back.data() + offset, n);
        for (size_t i = 0; i < dst.size(); ++i) {
          const bool inside = i >= offset && i < offset + n;
          const TypeParam expected = inside ? TypeParam(src[i]) : untouched;
          ASSERT_EQ(dst[i].bits, expected.bits) << n << " " << i;
          const float widened = inside ? static_cast<float>(expected) : -1.0f;
          ASSERT_EQ(to_bits(back[i]), to_bits(widened)) << n << " " << i;
        }
      }
    }
  });
}

TYPED_TEST(Convert, StochasticEqualsTheScalarAndDoesNotDependOnCuts) {
  std::vector<float> src = testing::strided(400009);
  const std::vector<float> edges = testing::boundaries<TypeParam>();
  src.insert(src.end(), edges.begin(), edges.begin() + std::min<size_t>(edges.size(), 20000));
  const size_t n = src.size();
  const random::Key key{.seed = 42, .stream = 7};
  const uint64_t offset = (uint64_t{1} << 33) + 5;
  for_each_target([&] {
    for (Overflow overflow : {Overflow::special, Overflow::saturate}) {
      std::vector<TypeParam> whole(n), pieces(n);
      narrow_stochastic(src.data(), whole.data(), n, key, offset, overflow);
      for (size_t i = 0; i < n; ++i) {
        const uint32_t random = random::bits(key.seed, key.stream, offset + i);
        ASSERT_EQ(whole[i].bits, code_of<TypeParam>(src[i], Rounding::stochastic, overflow, random))
            << std::hex << to_bits(src[i]) << " " << random;
      }
      for (size_t begin = 0, size = 1; begin < n; begin += size, size = size * 3 % 1999 + 1) {
        size = std::min(size, n - begin);
        narrow_stochastic(src.data() + begin, pieces.data() + begin, size, key, offset + begin,
                          overflow);
      }
      for (size_t i = 0; i < n; ++i) ASSERT_EQ(whole[i].bits, pieces[i].bits);
    }
  });
}

// Checks the mean of many roundings of x. The number of roundings up is binomial, so five standard
// deviations bound it; the seed is fixed.
TYPED_TEST(Convert, StochasticMeanIsTheNumberItself) {
  const Reference& r = reference<TypeParam>();
  constexpr size_t draws = 1 << 16;
  uint64_t stream = 0;
  for (uint32_t code : {0u, 1u, r.numbers / 3, r.numbers / 2, r.numbers - 2}) {
    for (double fraction : {0.03125, 0.375, 0.90625}) {
      const double low = r.values[code], high = r.values[code + 1];
      const std::vector<float> src(draws, static_cast<float>(low + fraction * (high - low)));
      std::vector<TypeParam> dst(draws);
      narrow_stochastic(src.data(), dst.data(), draws, {.seed = 1, .stream = ++stream});
      double rises = 0;
      for (TypeParam number : dst) {
        ASSERT_TRUE(number.bits == code || number.bits == code + 1);
        rises += number.bits - code;
      }
      const double deviation = std::sqrt(draws * fraction * (1 - fraction));
      EXPECT_NEAR(rises, draws * fraction, 5 * deviation) << low << " + " << fraction;
    }
  }
}

TEST(ConvertTf32, EqualsTheScalarInPlaceToo) {
  const std::vector<float> src = testing::strided(1021);
  for_each_target([&] {
    std::vector<float> dst = src;
    round_tf32(dst.data(), dst.data(), dst.size());
    for (size_t i = 0; i < src.size(); ++i)
      ASSERT_EQ(to_bits(dst[i]), to_bits(round_tf32(src[i]))) << to_bits(src[i]);
  });
}

TEST(ConvertErrors, StochasticRoundingNeedsAKey) {
  const float x = 1;
  f16 y;
  EXPECT_THROW(narrow(&x, &y, 1, Rounding::stochastic), Error);
}

// All 2^32 inputs, in every mode.
template <class T>
class ConvertSlow : public ::testing::Test {};
TYPED_TEST_SUITE(ConvertSlow, Types);

TYPED_TEST(ConvertSlow, NarrowsEveryFloatLikeTheReference) {
  reference<TypeParam>();
  for_each_target([] {
    std::atomic<size_t> mismatches = 0;
    parallel_for(int64_t{1} << 31, int64_t{1} << 22, [&](int64_t begin, int64_t end) {
      mismatches += Sweep<TypeParam>().count_mismatches(begin, end, 1);
    });
    EXPECT_EQ(mismatches, 0u);
  });
}

TEST(Convert, RandomWordsOfAnyRangeAreThoseOfTheirIndices) {
  const random::Key key{.seed = 0x123456789ABCDEF0, .stream = 0xFEDCBA9876543210};
  for_each_target([&] {
    for (const uint64_t first : {uint64_t{0}, uint64_t{1}, uint64_t{3}, (uint64_t{1} << 34) - 9,
                                 (uint64_t{3} << 56) + 2}) {
      for (const size_t count : {0, 1, 4, 7, 64, 131}) {
        std::vector<uint32_t> words(count + 1, 42), expected(count + 1, 42);
        fill_random(words.data(), count, key, first);
        for (size_t i = 0; i < count; ++i)
          expected[i] = random::bits(key.seed, key.stream, first + i);
        EXPECT_EQ(words, expected) << first << " " << count;
      }
    }
  });
}

}  // namespace
}  // namespace binade::formats
