#include "binade/formats/parse.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <random>
#include <set>
#include <sstream>
#include <vector>

#include "binade/base/error.h"
#include "binade/formats/codes.h"
#include "formats/reference.h"
#include "support/error_of.h"
#include "support/paths.h"

namespace binade::formats {
namespace {

// What a text says, written out by hand in the loops below.
struct Described {
  std::string text;
  int exponent_bits, mantissa_bits, bias;
  bool has_sign, has_infinity, has_nan, one_zero;
};

// A format's numbers from first principles: the value of every code in double arithmetic. Rounding
// is a search among the numbers that are there.
class ByValue {
 public:
  explicit ByValue(const Described& d) : d_(d) {
    const uint32_t magnitudes = 1u << (d.exponent_bits + d.mantissa_bits);
    const uint32_t steps = 1u << d.mantissa_bits;
    const uint32_t top = (1u << d.exponent_bits) - 1;
    for (uint32_t code = 0; code < magnitudes; ++code) {
      double value = without_specials(code);
      if (d.has_infinity && code / steps == top) value = code % steps == 0 ? INFINITY : NAN;
      if (!d.has_infinity && d.has_nan && !d.one_zero && code == magnitudes - 1) value = NAN;
      values_.push_back(value);
    }
    while (!std::isfinite(values_[last_ = values_.size() - 1 - skipped_])) ++skipped_;
  }

  double value(uint32_t code) const {
    const auto magnitudes = static_cast<uint32_t>(values_.size());
    if (d_.one_zero && code == magnitudes) return NAN;
    return code < magnitudes ? values_[code] : -values_[code - magnitudes];
  }
  uint32_t codes() const { return static_cast<uint32_t>(values_.size()) * (d_.has_sign ? 2 : 1); }

  // The nearest number to a finite x; ties go to the number whose significand is even, which is
  // the one of the even code if there is a mantissa, and the larger power of two if not.
  double rounded(double x, bool saturates) const {
    const double magnitude = std::fabs(x);
    if (!d_.has_sign && x < 0) return d_.has_nan ? NAN : 0;
    const double beyond = without_specials(static_cast<uint32_t>(last_) + 1);
    double best = 0;
    size_t index = 0;
    while (index < last_ && values_[index + 1] <= magnitude) ++index;
    if (magnitude >= values_[last_]) {
      const double middle = (values_[last_] + beyond) / 2;
      const bool past = magnitude > middle || (magnitude == middle && is_odd(last_));
      best = !past || saturates || !d_.has_nan ? values_[last_] : d_.has_infinity ? INFINITY : NAN;
    } else {
      const double middle = (values_[index] + values_[index + 1]) / 2;
      const bool up = magnitude > middle || (magnitude == middle && is_odd(index));
      best = values_[index + (up ? 1 : 0)];
    }
    return std::copysign(best, x);
  }

  std::vector<float> interesting() const {
    std::vector<float> result = {0.0f, -0.0f, 1e-45f, 3e38f, -3e38f};
    for (size_t code = 0; code <= last_; ++code) {
      const double next = without_specials(static_cast<uint32_t>(code) + 1);
      for (const double at : {values_[code], (values_[code] + next) / 2}) {
        const auto x = static_cast<float>(at);
        for (const float y : {std::nextafter(x, 0.0f), x, std::nextafter(x, INFINITY)}) {
          result.push_back(y);
          result.push_back(-y);
        }
      }
    }
    return result;
  }

 private:
  bool is_odd(size_t code) const { return d_.mantissa_bits == 0 ? code != 0 : code % 2 == 1; }
  // The number that a code would be if none had another meaning.
  double without_specials(uint32_t code) const {
    const uint32_t steps = 1u << d_.mantissa_bits;
    const int field = static_cast<int>(code / steps);
    const double fraction = static_cast<double>(code % steps) / steps;
    return field == 0 ? std::ldexp(fraction, 1 - d_.bias)
                      : std::ldexp(1 + fraction, field - d_.bias);
  }

  Described d_;
  std::vector<double> values_;  // of codes without a sign
  size_t last_ = 0, skipped_ = 0;
};

// Every format of up to 8 bits that has a sign bit or none, with four rules for specials and some
// biases.
std::vector<Described> all_described() {
  std::vector<Described> result;
  for (const bool has_sign : {true, false}) {
    for (int e = 1; e <= 8; ++e) {
      for (int m = 0; e + m + (has_sign ? 1 : 0) <= 8; ++m) {
        const std::string stem =
            (has_sign ? "e" : "ue") + std::to_string(e) + "m" + std::to_string(m);
        const int usual = (1 << (e - 1)) - 1;
        const bool is_ocp = (e == 2 && m == 1) || (e == 2 && m == 3) || (e == 3 && m == 2);
        for (const int bias : {usual, 0, 1, usual + 3, 60, 127}) {
          const std::string text = stem + "b" + std::to_string(bias);
          const int top = (1 << e) - 1;
          if (1 - bias < -126 || e + m + (has_sign ? 1 : 0) < 2) continue;
          const auto add = [&](const char* suffix, bool infinity, bool nan, bool one_zero,
                               int largest) {
            if (largest - bias <= 127)
              result.push_back({text + suffix, e, m, bias, has_sign, infinity, nan, one_zero});
          };
          if (e >= 2 && m >= 1) add("ieee", true, true, false, top - 1);
          if (!is_ocp && e + m >= 2) add("fn", false, true, false, m == 0 ? top - 1 : top);
          if (has_sign) add("fnuz", false, true, true, top);
          add("f", false, false, false, top);
        }
      }
    }
  }
  return result;
}

bool same(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) == std::isnan(b);
  return a == b && (a != 0 || std::signbit(a) == std::signbit(b));
}

TEST(ParseFormat, EveryFormatOfUpTo8BitsHasItsNumbers) {
  const std::vector<Described> all = all_described();
  EXPECT_GT(all.size(), 500u);
  for (const Described& described : all) {
    SCOPED_TRACE(described.text);
    const Format format = parse(described.text);
    const Coder coder(format);
    const ByValue reference(described);
    ASSERT_EQ(1u << format.bits(), reference.codes());
    EXPECT_EQ(format.bias(), described.bias);
    EXPECT_EQ(format.has_nan(), described.has_nan);
    EXPECT_EQ(format.has_infinity(), described.has_infinity);
    double largest = 0;
    for (uint32_t code = 0; code < reference.codes(); ++code) {
      const double value = reference.value(code);
      ASSERT_TRUE(same(coder.decode(code), value)) << code << " " << coder.decode(code);
      if (std::isfinite(value)) largest = std::max(largest, value);
    }
    EXPECT_EQ(format.max(), largest);
    ASSERT_EQ(parse(format.name), format) << format.name;
  }
}

TEST(ParseFormat, EveryFormatRoundsToTheNearest) {
  for (const Described& described : all_described()) {
    SCOPED_TRACE(described.text);
    const Coder coder(parse(described.text));
    const ByValue reference(described);
    for (const float x : reference.interesting()) {
      for (const Overflow overflow : {Overflow::special, Overflow::saturate}) {
        double expected = reference.rounded(x, overflow == Overflow::saturate);
        if (expected == 0 && (described.one_zero || !described.has_sign)) expected = 0;
        const double found = coder.decode(coder.encode(x, Rounding::nearest_even, overflow));
        ASSERT_TRUE(same(found, expected)) << x << " became " << found << ", not " << expected;
      }
    }
  }
}

// Runs are rounded without branches: the same codes, saturating, in runs of odd lengths with NaN.
TEST(ParseFormat, RunsHaveTheCodesOfTheirNumbers) {
  std::vector<std::string> texts = {"int8", "int4", "int3", "ue8m0", "ue5m0"};
  for (const Described& described : all_described()) texts.push_back(described.text);
  for (const std::string& text : texts) {
    SCOPED_TRACE(text);
    const Coder coder(parse(text));
    std::vector<float> values = {0.0f, -0.0f, 1e-45f, -1e-45f, 3e38f, INFINITY, -INFINITY};
    for (uint32_t code = 0; code < 1u << coder.format().bits(); ++code) {
      const float x = coder.decode(code);
      if (!std::isfinite(x)) continue;
      for (const float factor : {1.0f, 1.25f, 0.75f, 1.03125f, 0.999f})
        values.push_back(x * factor);
    }
    values.resize(values.size() / 2 * 2 + 1, 0.3f);
    for (const bool has_nan : {false, true}) {
      if (has_nan) values[values.size() / 3] = NAN;
      std::vector<uint8_t> bytes(values.size(), 0xEE);
      coder.encode_run(values.data(), values.size(), bytes.data());
      const auto per_byte = static_cast<size_t>(codes_per_byte(coder.format()));
      for (size_t i = 0; i < values.size(); ++i) {
        const uint32_t byte = bytes[i / per_byte];
        const uint32_t code = per_byte == 1 ? byte : byte >> i % 2 * 4 & 15;
        ASSERT_EQ(code, coder.encode(values[i], Rounding::nearest_even, Overflow::saturate))
            << values[i];
      }
    }
  }
}

// Up with the probability of the dropped part: the smallest random number that rounds up says it.
TEST(ParseFormat, StochasticRoundingRisesByTheDroppedFraction) {
  std::mt19937 draws(7);
  for (const char* text : {"e2m1", "e3m4", "e2m3", "e4m3b11fnuz", "e5m0", "ue4m3", "int4"}) {
    SCOPED_TRACE(text);
    const Coder coder(parse(text));
    for (int i = 0; i < 400; ++i) {
      const double uniform = std::ldexp(static_cast<double>(draws()), -32);
      const auto x = static_cast<float>(uniform * coder.format().max());
      const auto at = [&](uint32_t random) -> double {
        return coder.decode(coder.encode(x, Rounding::stochastic, Overflow::saturate, random));
      };
      const double low = at(0), high = at(0xffffffff);
      ASSERT_LE(low, x);
      ASSERT_GE(high, x);
      if (low == high) continue;
      const double fraction = (x - low) / (high - low);
      const auto threshold = static_cast<uint32_t>(std::ldexp(1 - fraction, 32));
      EXPECT_EQ(at(threshold - 1), low) << x;
      EXPECT_EQ(at(threshold), high) << x;
    }
  }
}

TEST(ParseFormat, IntegersAreSymmetric) {
  for (int bits = 2; bits <= 8; ++bits) {
    const Format format = parse("int" + std::to_string(bits));
    const Coder coder(format);
    const int largest = (1 << (bits - 1)) - 1;
    EXPECT_EQ(format.max(), largest);
    for (int value = -largest; value <= largest; ++value) {
      const uint32_t code = coder.encode(static_cast<float>(value));
      EXPECT_EQ(code, static_cast<uint32_t>(value) & ((1u << bits) - 1)) << value;
      EXPECT_EQ(coder.decode(code), static_cast<float>(value));
      const float half = static_cast<float>(value) + 0.5f;
      const double even = std::nearbyint(half);  // ties to even
      EXPECT_EQ(coder.decode(coder.encode(half)), std::min<double>(even, largest)) << half;
    }
    EXPECT_EQ(coder.decode(coder.encode(-1e9f)), static_cast<float>(-largest));
    EXPECT_EQ(coder.decode(coder.encode(INFINITY)), static_cast<float>(largest));
    EXPECT_EQ(coder.encode(-0.0f), 0u);
  }
}

TEST(ParseFormat, ScalesWithoutAMantissaArePowersOfTwo) {
  for (int bits = 2; bits <= 8; ++bits) {
    const Format format = parse("ue" + std::to_string(bits) + "m0");
    const Coder coder(format);
    const int bias = (1 << (bits - 1)) - 1, codes = 1 << bits;
    EXPECT_FALSE(format.has_zero());
    EXPECT_TRUE(std::isnan(coder.decode(static_cast<uint32_t>(codes - 1))));
    for (int code = 0; code + 1 < codes; ++code) {
      const double value = std::ldexp(1.0, code - bias);
      EXPECT_EQ(coder.decode(static_cast<uint32_t>(code)), value);
      EXPECT_EQ(coder.encode(static_cast<float>(value)), static_cast<uint32_t>(code));
      const auto above = static_cast<float>(1.5 * value);
      EXPECT_EQ(coder.encode(above, Rounding::toward_zero), static_cast<uint32_t>(code));
      EXPECT_EQ(coder.encode(above), static_cast<uint32_t>(code + 1));
    }
    EXPECT_EQ(coder.encode(0.0f), 0u);
  }
  EXPECT_EQ(parse("ue8m0"), spec::e8m0);
}

// The listed formats by their bits are the ones that the compiler knows.
TEST(ParseFormat, ListedFormatsAreTheSameByTheirBits) {
  EXPECT_EQ(parse("e4m3"), spec::e4m3);
  EXPECT_EQ(parse("e4m3fn"), spec::e4m3);
  EXPECT_EQ(parse("e4m3fnuz"), spec::e4m3fnuz);
  EXPECT_EQ(parse("e5m2"), spec::e5m2);
  EXPECT_EQ(parse("e5m2ieee"), spec::e5m2);
  EXPECT_EQ(parse("e8m0"), spec::e8m0);
  EXPECT_EQ(parse("e2m1"), spec::e2m1);
  EXPECT_EQ(parse("e2m1fn"), spec::e2m1);
  EXPECT_EQ(parse("bf16"), spec::bf16);
  EXPECT_EQ(parse("int4"), spec::int4);
  EXPECT_STREQ(parse("e4m3b7fn").name, "e4m3");
  EXPECT_STREQ(parse("e3m4b3ieee").name, "e3m4");
  EXPECT_STREQ(parse("e4m3b11fnuz").name, "e4m3b11fnuz");
  EXPECT_STREQ(parse("ue4m3fn").name, "ue4m3");
  EXPECT_NE(parse("e4m3"), parse("e4m3ieee"));
  EXPECT_NE(parse("e4m3"), parse("ue4m3"));
}

TEST(ParseFormat, IsAConstantInPrograms) {
  static constexpr Format e3m4 = parse("e3m4");
  static_assert(e3m4.max() == 15.5 && e3m4.bias() == 3);
  static_assert(decode<e3m4>(encode<e3m4>(0.1f)) == 0.09375f);
  static constexpr Format ue5m3 = parse("ue5m3");
  const Coder coder(parse("ue5m3"));
  for (uint32_t code = 0; code < 256; ++code) {
    const float value = decode<ue5m3>(code);
    EXPECT_TRUE(same(value, coder.decode(code))) << code;
  }
}

TEST(ParseFormat, OthersAreRefused) {
  for (const char* text :
       {"",      "e",        "e4",        "e4m",       "m3",     "e0m3",     "e5m3",
        "e9m0",  "e4m3x",    "e4m3fnuzz", "ue4m3fnuz", "u",      "e1m3ieee", "e3m0ieee",
        "e4m3b", "e4m3b128", "e4m3b999",  "e04m3",     "int1",   "int9",     "int",
        "int4x", "uint4",    "E4M3",      " e4m3",     "ue8m0f", "e1000m0",  "ue1m0b999"}) {
    SCOPED_TRACE(text);
    EXPECT_FALSE(find_format(text));
    EXPECT_NE(test::error_of([&] { parse(text); }).find("binade formats"), std::string::npos);
  }
}

TEST(ParseFormat, AgreesWithMlDtypes) {
  std::ifstream file(test::golden_dir() + "/formats_by_bits.txt");
  std::set<std::string> names;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string kind, name;
    words >> kind >> name >> std::hex;
    SCOPED_TRACE(kind + " " + name);
    const Coder coder(parse(name));
    std::vector<uint32_t> numbers;
    for (uint32_t number; words >> number;) numbers.push_back(number);
    if (kind == "decode") {
      ASSERT_EQ(numbers.size(), 1u << coder.format().bits());
      for (uint32_t code = 0; code < numbers.size(); ++code)
        EXPECT_TRUE(same(coder.decode(code), testing::from_bits(numbers[code]))) << code;
      names.insert(name);
      continue;
    }
    ASSERT_GT(numbers.size(), 80u);
    for (size_t i = 0; i + 1 < numbers.size(); i += 2) {
      const float x = testing::from_bits(numbers[i]);
      // An infinity is the largest number in a format that has neither infinity nor NaN.
      EXPECT_TRUE(same(coder.decode(coder.encode(x)), coder.decode(numbers[i + 1])))
          << x << " " << coder.encode(x) << " " << numbers[i + 1];
    }
  }
  EXPECT_EQ(names.size(), 7u);
}

}  // namespace
}  // namespace binade::formats
