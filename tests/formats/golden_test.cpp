#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <tuple>

#include "binade/formats/number.h"
#include "formats/reference.h"
#include "support/paths.h"

// Compares with ml_dtypes and NumPy; tests/golden/formats.py describes the file.

namespace binade {
namespace {

using formats::testing::from_bits;
using formats::testing::to_bits;

std::ifstream open_golden() {
  std::ifstream file(test::golden_dir() + "/formats.txt");
  EXPECT_TRUE(file) << "missing " << test::golden_dir() << "/formats.txt";
  return file;
}

template <class T>
void expect_decodes(const std::vector<uint32_t>& values) {
  ASSERT_EQ(values.size(), 256u);
  for (uint32_t code = 0; code < 256; ++code) {
    const float expected = from_bits(values[code]);
    const float value = T::from_bits(static_cast<typename T::Bits>(code));
    if (std::isnan(expected))
      EXPECT_TRUE(std::isnan(value)) << code;
    else
      EXPECT_EQ(to_bits(value), values[code]) << code;
  }
}

TEST(FormatsGolden, DecodeTables) {
  std::ifstream file = open_golden();
  int tables = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string kind, name;
    words >> kind >> name >> std::hex;
    if (kind != "decode") continue;
    std::vector<uint32_t> values;
    for (uint32_t value; words >> value;) values.push_back(value);
    SCOPED_TRACE(name);
    if (name == "e4m3") expect_decodes<e4m3>(values);
    if (name == "e4m3fnuz") expect_decodes<e4m3fnuz>(values);
    if (name == "e5m2") expect_decodes<e5m2>(values);
    if (name == "e8m0") expect_decodes<e8m0>(values);
    ++tables;
  }
  EXPECT_EQ(tables, 4);
}

template <class T>
void expect_encodes(float x, const std::string& word) {
  if (word == "-") return;
  const uint32_t expected = static_cast<uint32_t>(std::stoul(word, nullptr, 16));
  const T number(x);
  const auto& reference = formats::testing::reference<T>();
  if (reference.is_nan(expected)) {
    EXPECT_TRUE(reference.is_nan(number.bits))
        << formats::format_of<T>.name << " of " << x << " gave " << std::hex << +number.bits;
  } else {
    EXPECT_EQ(number.bits, expected) << formats::format_of<T>.name << " of " << x;
  }
}

TEST(FormatsGolden, EncodeCases) {
  std::ifstream file = open_golden();
  int cases = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string kind, bits, f16_code, bf16_code, e4m3_code, e4m3fnuz_code, e5m2_code, e8m0_code;
    words >> kind;
    if (kind != "encode") continue;
    words >> bits >> f16_code >> bf16_code >> e4m3_code >> e4m3fnuz_code >> e5m2_code >> e8m0_code;
    ASSERT_FALSE(e8m0_code.empty()) << line;
    const float x = from_bits(static_cast<uint32_t>(std::stoul(bits, nullptr, 16)));
    expect_encodes<f16>(x, f16_code);
    expect_encodes<bf16>(x, bf16_code);
    expect_encodes<e4m3>(x, e4m3_code);
    expect_encodes<e4m3fnuz>(x, e4m3fnuz_code);
    expect_encodes<e5m2>(x, e5m2_code);
    expect_encodes<e8m0>(x, e8m0_code);
    ++cases;
  }
  EXPECT_GT(cases, 2000);
}

}  // namespace
}  // namespace binade
