#include "binade/formats/tensor_core/tensor_core.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "binade/base/error.h"
#include "binade/base/random.h"
#include "formats/reference.h"
#include "support/paths.h"

// Against results of an H200, against sums that were worked out by hand, and against exact
// fractions (tests/golden/tensor_core.py).
namespace binade::formats::tensor_core {
namespace {

using testing::from_bits;
using testing::to_bits;

const Format& format_named(const std::string& name) {
  for (const Format* one : {&spec::f16, &spec::bf16, &spec::tf32, &spec::e4m3, &spec::e5m2})
    if (one->name == name) return *one;
  throw std::runtime_error("no format " + name);
}

Architecture architecture_named(const std::string& name) {
  const std::vector<std::string> names = {"volta", "turing", "ampere",
                                          "ada",   "hopper", "blackwell"};
  return static_cast<Architecture>(std::find(names.begin(), names.end(), name) - names.begin());
}

float widen(const Format& format, uint32_t code) {
  if (format == spec::tf32 || format == spec::f32) return from_bits(code);
  return detail::decode_fields(detail::fields_of(format), code);
}

std::vector<float> widen(const Format& format, const std::vector<uint32_t>& codes) {
  std::vector<float> values;
  for (const uint32_t code : codes) values.push_back(widen(format, code));
  return values;
}

// One line of the golden file.
struct Case {
  Options options;
  std::vector<float> a, b;
  float c = 0, d = 0;
};

Case read_case(const std::string& line) {
  std::istringstream words(line);
  std::string architecture, a, b, accumulator, zeros;
  Case one;
  size_t k = 0;
  words >> architecture >> a >> b >> accumulator >> zeros >> one.options.promote_every >> k;
  one.options.architecture = architecture_named(architecture);
  one.options.a = &format_named(a);
  one.options.b = &format_named(b);
  one.options.accumulator = accumulator == "f16" ? Accumulator::f16 : Accumulator::f32;
  one.options.zeros = zeros == "least" ? ZeroSummands::least_exponent : ZeroSummands::left_out;
  std::vector<uint32_t> codes(2 * k + 2);
  words >> std::hex;
  for (uint32_t& code : codes) words >> code;
  EXPECT_TRUE(words) << line;
  const auto middle = codes.begin() + static_cast<std::ptrdiff_t>(k);
  one.a = widen(*one.options.a, {codes.begin(), middle});
  one.b = widen(*one.options.b, {middle, codes.end() - 2});
  const Format& result = accumulator == "f16" ? spec::f16 : spec::f32;
  one.c = widen(result, codes[2 * k]);
  one.d = widen(result, codes[2 * k + 1]);
  return one;
}

std::vector<std::string> golden_lines() {
  // BINADE_TENSOR_CORE_CASES: a file of more cases, by the same script.
  const char* other = std::getenv("BINADE_TENSOR_CORE_CASES");
  std::ifstream file(other != nullptr ? other : test::golden_dir() + "/tensor_core.txt");
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

TEST(TensorCore, DotsEqualExactFractions) {
  const std::vector<std::string> lines = golden_lines();
  EXPECT_GT(lines.size(), 1000u);
  int different = 0;
  for (const std::string& line : lines) {
    const Case one = read_case(line);
    const float d = TensorCore(one.options).dot(one.a, one.b, one.c);
    if (to_bits(d) != to_bits(one.d) && ++different < 10)
      ADD_FAILURE() << line << "\ngave " << std::hex << to_bits(d);
  }
  EXPECT_EQ(different, 0);
}

// The case is one element of a matmul whose other elements are other numbers: 1 and 17 columns, so
// that both a full and a partial strip hold it.
TEST(TensorCore, MatmulsEqualExactFractions) {
  int different = 0;
  for (const std::string& line : golden_lines()) {
    const Case one = read_case(line);
    const auto k = static_cast<int64_t>(one.a.size());
    const int64_t m = 2, n = 18, row = 1, column = different % 2 == 0 ? 17 : 3;
    std::vector<float> a(static_cast<size_t>(m * k), 1), b(static_cast<size_t>(n * k), 0.5f),
        c(static_cast<size_t>(m * n), 2), d(c.size());
    std::copy(one.a.begin(), one.a.end(), a.begin() + row * k);
    std::copy(one.b.begin(), one.b.end(), b.begin() + column * k);
    c[static_cast<size_t>(row * n + column)] = one.c;
    TensorCore(one.options).multiply({a.data(), b.data(), c.data(), d.data(), m, n, k});
    const float result = d[static_cast<size_t>(row * n + column)];
    EXPECT_EQ(d[0], 2 + 0.5f * static_cast<float>(k));
    if (to_bits(result) != to_bits(one.d) && ++different < 10)
      ADD_FAILURE() << line << "\ngave " << std::hex << to_bits(result);
  }
  EXPECT_EQ(different, 0);
}

// Each number of a matmul of unequal sizes, whose elements all differ.
TEST(TensorCore, MatmulsEqualDots) {
  const int64_t m = 5, n = 37, k = 75;
  for (const Format* format : {&spec::f16, &spec::bf16, &spec::tf32, &spec::e4m3, &spec::e5m2}) {
    const auto numbers = [&](int64_t count, uint64_t stream) {
      std::vector<float> values;
      const detail::Fields fields = detail::fields_of(*format);
      for (int64_t i = 0; i < count; ++i) {
        const auto at = static_cast<uint64_t>(i);
        const float x = std::ldexp(random::normal(5, stream, at),
                                   static_cast<int>(random::bits(5, stream + 10, at) % 17) - 8);
        const uint32_t code =
            detail::encode_fields(fields, x, Rounding::nearest_even, Overflow::saturate, 0);
        values.push_back(detail::decode_fields(fields, code));
      }
      return values;
    };
    std::vector<float> a = numbers(m * k, 1);
    const std::vector<float> b = numbers(n * k, 2), c = numbers(m * n, 3);
    a[static_cast<size_t>(3 * k + 7)] = std::numeric_limits<float>::quiet_NaN();
    const int64_t promote = *format == spec::e4m3 ? 64 : 0;
    const TensorCore core({.a = format, .b = format, .promote_every = promote});
    std::vector<float> d(c.size());
    core.multiply({a.data(), b.data(), c.data(), d.data(), m, n, k});
    for (int64_t i = 0; i < m * n; ++i) {
      const auto depth = static_cast<size_t>(k), at = static_cast<size_t>(i);
      const float expected =
          core.dot({a.data() + i / n * k, depth}, {b.data() + i % n * k, depth}, c[at]);
      ASSERT_EQ(to_bits(d[at]), to_bits(expected)) << format->name << " element " << i;
      EXPECT_EQ(std::isnan(d[at]), i / n == 3);
    }
  }
}

// a[0] x b[0], then `count` times a x b; zeros for the rest.
struct Sum {
  float c;
  float first_a, first_b;
  int count;
  float a, b;
  float hopper, ampere;
};

TEST(TensorCore, SumsWorkedOutByHand) {
  const Sum sums[] = {
      {1, 0, 0, 2, 1, 0x1p-24f, 1 + 0x1p-23f, 1 + 0x1p-23f},
      {1, 0, 0, 4, 1, 0x1p-25f, 1 + 0x1p-23f, 1},
      {1, 0, 0, 8, 1, 0x1p-26f, 1, 1},
      {-1, 0, 0, 4, 1, -0x1p-25f, -(1 + 0x1p-23f), -1},
      {1, 1, 0x1p-23f, 1, 1, 0x1p-24f, 1 + 0x1p-23f, 1 + 0x1p-23f},
      {0, 1.5f, 1.5f, 8, 1, 0x1p-25f, 2.25f + 0x1p-22f, 2.25f},
      {0x1p25f, 0x1p13f, -0x1p12f, 1, 1, 1, 1, 0},
      {0x1p26f, 0x1p13f, -0x1p13f, 1, 1, 1, 0, 0},
  };
  for (const Sum& sum : sums) {
    std::vector<float> a(16, 0), b(16, 0);
    a[0] = sum.first_a;
    b[0] = sum.first_b;
    // Ampere adds eight products at once, so all of them are among the first eight and one.
    for (int i = 0; i < sum.count; ++i) {
      const auto at = static_cast<size_t>(sum.first_a == 0 ? i : i + 1);
      a[at] = sum.a;
      b[at] = sum.b;
    }
    EXPECT_EQ(TensorCore({}).dot(a, b, sum.c), sum.hopper) << sum.c << " " << sum.count;
    EXPECT_EQ(TensorCore({.architecture = Architecture::ampere}).dot(a, b, sum.c), sum.ampere)
        << sum.c << " " << sum.count;
  }
}

TEST(TensorCore, Fp8SumsWorkedOutByHand) {
  const TensorCore core({.a = &spec::e4m3, .b = &spec::e4m3});
  const auto sum = [&](std::vector<float> a, std::vector<float> b, float c) {
    return core.fused_sum(a, b, c);
  };
  EXPECT_EQ(sum({1, 0x1p-6f}, {1, 0x1p-7f}, 0), 1 + 0x1p-13f);
  EXPECT_EQ(sum({1, 0x1p-7f, 0x1p-7f}, {1, 0x1p-7f, 0x1p-7f}, 0), 1);
  EXPECT_EQ(sum({0, 0}, {0, 0}, 1 + 0x1p-14f), 1);
  EXPECT_EQ(sum({}, {}, 1 + 0x1p-13f), 1 + 0x1p-13f);
}

// Outputs of the hardware, as the validation data of MATLAB-tensor-core has them.
TEST(TensorCore, ResultsOfAnH200) {
  const std::vector<float> a =
      widen(spec::bf16, {0x3f7a, 0x3f87, 0xbea6, 0x3fbf, 0xbf3d, 0x3ead, 0x3f80, 0x3fe8, 0x3f62,
                         0x3f5d, 0xbf8c, 0x3eb3, 0x3cf1, 0x3e9c, 0x3f86, 0x3f59});
  const std::vector<float> b =
      widen(spec::bf16, {0x3f19, 0xbf26, 0x3ed7, 0x3e9d, 0xbff3, 0x3ef2, 0xbfc1, 0xbf90, 0x3dbf,
                         0xbf31, 0xbf52, 0x400e, 0xbc71, 0x401e, 0x3e1c, 0xbea4});
  EXPECT_EQ(to_bits(TensorCore({}).fused_sum(a, b, from_bits(0x3da2e4f3))), 0x3de7e010u);

  const std::vector<float> x =
      widen(spec::e4m3, {0x37, 0x38, 0xaa, 0x3b, 0xb3, 0x2a, 0x38, 0x3e, 0x36, 0x35, 0xb8,
                         0x2b, 0x0f, 0x29, 0x38, 0x35, 0xb8, 0x37, 0x03, 0xba, 0xae, 0xa6,
                         0x3a, 0x3d, 0x92, 0x26, 0xb0, 0xaf, 0xb3, 0x33, 0x42, 0x2d});
  const std::vector<float> y =
      widen(spec::e4m3, {0x31, 0xb2, 0x2d, 0x29, 0xbf, 0x2f, 0xbc, 0xb9, 0x1b, 0xb3, 0xb5,
                         0x40, 0x87, 0x41, 0x21, 0xaa, 0xb7, 0x3f, 0xb2, 0x31, 0xad, 0x9d,
                         0xb8, 0x3a, 0x3d, 0x3b, 0x9b, 0x86, 0xbc, 0xac, 0x12, 0x83});
  const TensorCore core({.a = &spec::e4m3, .b = &spec::e4m3});
  EXPECT_EQ(to_bits(core.fused_sum(x, y, 0)), 0x40727c00u);
}

// The factor of a block goes into one rounding with the addition.
TEST(TensorCore, FactorsOfPromotedBlocksAreFused) {
  const TensorCore core({.a = &spec::e4m3, .b = &spec::e4m3, .promote_every = 32});
  std::vector<float> a(64, 0), b(64, 1);
  a[0] = 1.125f;
  a[32] = 1.25f;
  const float x = 1 + 0x1p-23f, y = 3 - 0x1p-22f;
  const double first = std::fma(double{x}, 1.125, 0.5);
  const float expected = std::fma(y, 1.25f, static_cast<float>(first));
  EXPECT_EQ(core.dot(a, b, 0.5f, std::vector<float>{x, y}), expected);
}

TEST(TensorCore, ItsSumsAreNotMonotonic) {
  // A larger summand cuts more from the others.
  const std::vector<float> b(16, 1);
  std::vector<float> a(16, 0x1p-25f);
  a[0] = 1;
  const float with_one = TensorCore({}).fused_sum(a, b, 0);
  a[0] = 2;
  EXPECT_EQ(with_one, 1 + 3 * 0x1p-23f);               // 15 x 2^-25 is cut to 12 x 2^-25
  EXPECT_EQ(TensorCore({}).fused_sum(a, b, 0), 2.0f);  // each is below 2^(1 - 25)
}

TEST(TensorCore, RefusesWhatNoInstructionMultiplies) {
  const auto refuses = [](const Options& options) {
    EXPECT_THROW(TensorCore core(options), Error);
  };
  refuses({.a = &spec::f16, .b = &spec::bf16});
  refuses({.a = &spec::f32, .b = &spec::f32});
  refuses({.architecture = Architecture::ampere, .a = &spec::e4m3, .b = &spec::e4m3});
  refuses({.architecture = Architecture::volta});
  refuses({.a = &spec::e4m3, .b = &spec::e4m3, .promote_every = 48});
  const TensorCore core({});
  const std::vector<float> many(17, 1), one(1, 1), fine(1, 1.001f);
  EXPECT_THROW(core.fused_sum(many, many, 0), Error);
  EXPECT_THROW(core.fused_sum(many, one, 0), Error);
  EXPECT_THROW(core.fused_sum(one, fine, 0), Error);  // bf16 does not hold 1.001
  float d = 0;
  EXPECT_THROW(core.multiply({one.data(), fine.data(), nullptr, &d, 1, 1, 1}), Error);
}

}  // namespace
}  // namespace binade::formats::tensor_core
