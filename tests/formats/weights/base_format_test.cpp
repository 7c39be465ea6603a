#include "binade/formats/weights/base_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <random>
#include <sstream>
#include <vector>

#include "support/error_of.h"
#include "support/paths.h"

namespace binade::formats {
namespace {

using ::testing::HasSubstr;

template <class T>
std::vector<T> base_data(const std::string& hex) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<uint8_t>(std::stoul(hex.substr(i, 2), nullptr, 16)));
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

struct Nf4Case {
  std::string name;
  int64_t rows = 0, columns = 0;
  std::vector<float> weight;
  std::vector<uint8_t> codes;
  std::vector<float> absmax, values;
};

struct Nf4Golden {
  std::vector<double> levels;
  std::vector<Nf4Case> cases;
};

// tests/golden/nf4.py describes the file.
Nf4Golden nf4_golden() {
  std::ifstream file(test::golden_dir() + "/nf4.txt");
  EXPECT_TRUE(file);
  Nf4Golden golden;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string kind, values, codes, absmax, decoded;
    words >> kind;
    if (kind == "levels") {
      words >> values;
      golden.levels = base_data<double>(values);
      continue;
    }
    Nf4Case one;
    words >> one.name >> one.rows >> one.columns >> values >> codes >> absmax >> decoded;
    one.weight = base_data<float>(values);
    one.codes = base_data<uint8_t>(codes);
    one.absmax = base_data<float>(absmax);
    one.values = base_data<float>(decoded);
    golden.cases.push_back(std::move(one));
  }
  return golden;
}

std::vector<std::byte> encoded(const BlockFormat& format, const WeightRows& weight) {
  std::vector<std::byte> blocks(static_cast<size_t>(weight.rows * format.bytes_of(weight.columns)));
  encode_base(format, weight, blocks);
  return blocks;
}

std::vector<float> decoded(const BlockFormat& format, const std::vector<std::byte>& blocks,
                           int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  dequantize_blocks(format, blocks, values);
  return values;
}

TEST(Nf4, HasTheQuantilesOfItsDefinition) {
  const Nf4Golden golden = nf4_golden();
  ASSERT_EQ(golden.levels.size(), 16U);
  for (size_t i = 0; i < 16; ++i) EXPECT_NEAR(nf4_levels[i], golden.levels[i], 5e-7) << i;
  EXPECT_EQ(nf4_levels[7], 0);
}

TEST(Nf4, CodesAsAnIndependentFormula) {
  const Nf4Golden golden = nf4_golden();
  ASSERT_EQ(golden.cases.size(), 5U);
  for (const Nf4Case& one : golden.cases) {
    SCOPED_TRACE(one.name);
    const std::vector<std::byte> blocks = encoded(nf4, {one.weight.data(), one.rows, one.columns});
    ASSERT_EQ(blocks.size(), one.absmax.size() * 36);
    for (size_t b = 0; b < one.absmax.size(); ++b) {
      float absmax = 0;
      std::memcpy(&absmax, blocks.data() + 36 * b, sizeof absmax);
      EXPECT_EQ(absmax, one.absmax[b]) << b;
      for (size_t i = 0; i < 64; ++i) {
        const auto pair = static_cast<uint8_t>(blocks[36 * b + 4 + i / 2]);
        EXPECT_EQ(i % 2 == 0 ? pair >> 4 : pair & 15, one.codes[64 * b + i]) << b << " " << i;
      }
    }
    EXPECT_EQ(decoded(nf4, blocks, one.rows * one.columns), one.values);
  }
}

TEST(Nf4, ATieGoesToTheLowerLevel) {
  std::vector<float> values(64, 0.0F);
  values[0] = 2;              // the scale
  values[1] = nf4_levels[8];  // in the middle of levels 7 (0) and 8, times 2
  values[2] = std::nextafter(nf4_levels[8], 1.0F);
  values[3] = -2;
  const auto blocks = encoded(nf4, {values.data(), 1, 64});
  EXPECT_EQ(static_cast<uint8_t>(blocks[4]), 0xF7);
  EXPECT_EQ(static_cast<uint8_t>(blocks[5]), 0x80);
}

// 130 rows: the last two have a scale of their own.
TEST(Fp8Block, HasTheValuesOfTheWeightFormat) {
  std::mt19937 draw(3);
  std::normal_distribution<float> normal(0, 0.3F);
  std::vector<float> values(130 * 256);
  for (float& value : values) value = normal(draw);
  values[200] = 9;  // only the second group of columns, only the first 128 rows
  const WeightRows weight{values.data(), 130, 256};
  std::vector<float> expected(values.size());
  round_weight(*find_weight_format("fp8-block"), weight, expected.data());
  EXPECT_EQ(decoded(fp8_block, encoded(fp8_block, weight), 130 * 256), expected);
  EXPECT_NE(expected, values);
}

TEST(BaseFormat, KnowsFiveByName) {
  EXPECT_EQ(base_format_names(), "q4_0, q4_k, q8_0, nf4, fp8-block");
  for (const char* name : {"q4_0", "q4_k", "q8_0", "nf4", "fp8-block"})
    EXPECT_EQ(find_base_format(name)->name, name);
  EXPECT_EQ(find_base_format("q6_k"), nullptr);
  EXPECT_EQ(find_base_format("NF4"), nullptr);
}

TEST(BaseFormat, RefusesWhatItCannotHold) {
  std::vector<float> values(2 * 256, 1.0F);
  const auto refusal = [&](const char* name, int64_t columns) {
    return test::error_of([&] { encoded(*find_base_format(name), {values.data(), 2, columns}); });
  };
  EXPECT_THAT(refusal("nf4", 96), HasSubstr("multiple of 64 elements, found 96"));
  EXPECT_THAT(refusal("q4_k", 128), HasSubstr("multiple of 256 elements, found 128"));
  values[300] = std::numeric_limits<float>::infinity();
  for (const char* name : {"q4_0", "q4_k", "q8_0", "nf4", "fp8-block"})
    EXPECT_THAT(refusal(name, 256), HasSubstr("finite weights, found inf in row 1")) << name;
  values[300] = 3e38F;
  EXPECT_THAT(refusal("q8_0", 256), HasSubstr("range of f16, found larger ones in row 1"));
  EXPECT_EQ(refusal("nf4", 256), "");
}

}  // namespace
}  // namespace binade::formats
