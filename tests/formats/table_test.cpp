#include "binade/formats/table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "binade/base/json.h"
#include "binade/formats/parse.h"

namespace binade::formats {
namespace {

TEST(FormatTable, TextHasOneAlignedLinePerFormat) {
  std::istringstream text(table_text());
  std::string line;
  ASSERT_TRUE(std::getline(text, line));
  const size_t use = line.find("use");
  ASSERT_NE(use, std::string::npos);
  for (const Format* format : all) {
    ASSERT_TRUE(std::getline(text, line)) << format->name;
    EXPECT_LE(line.size(), 100u) << line;
    EXPECT_EQ(line.substr(0, line.find(' ')), format->name);
    EXPECT_EQ(line.find(format->use), use) << line;
  }
  EXPECT_FALSE(std::getline(text, line)) << line;
}

TEST(FormatTable, JsonReadsBackExactly) {
  const json::Document document = json::parse(table_json(), {.reader = "test", .file = "table"});
  const std::vector<json::Value>& table = document.root().array();
  ASSERT_EQ(table.size(), std::size(all));
  for (size_t i = 0; i < std::size(all); ++i) {
    const Format& format = *all[i];
    const json::Value& row = table[i];
    EXPECT_EQ(row.object().size(), 13u);
    EXPECT_EQ(row.at("name").string(), format.name);
    EXPECT_EQ(row.at("bits").number(), format.bits());
    EXPECT_EQ(row.at("exponent").number(), format.exponent_bits);
    EXPECT_EQ(row.at("mantissa").number(), format.mantissa_bits);
    EXPECT_EQ(row.at("bias").number(), format.bias());
    EXPECT_EQ(row.at("max").number(), format.max());
    EXPECT_EQ(row.at("min_normal").number(), format.min_normal());
    EXPECT_EQ(row.at("epsilon").number(), format.epsilon());
    EXPECT_EQ(row.at("decimal_digits").number(), format.decimal_digits());
    EXPECT_EQ(row.at("infinity").boolean(), format.has_infinity());
    EXPECT_EQ(row.at("nan").boolean(), format.has_nan());
    EXPECT_EQ(row.at("use").string(), format.use);
    if (format.has_subnormals())
      EXPECT_EQ(row.at("min_subnormal").number(), format.min_subnormal());
    else
      EXPECT_TRUE(row.at("min_subnormal").is_null());
  }
}

TEST(FormatTable, LayoutsHaveAsManyLettersAsBits) {
  std::istringstream text(layout_text());
  std::string line;
  for (const Format* format : all) {
    ASSERT_TRUE(std::getline(text, line)) << format->name;
    const std::string bits = line.substr(10, 35);
    const auto count = [&](char letter) { return std::count(bits.begin(), bits.end(), letter); };
    EXPECT_EQ(count('S'), format->is_signed() ? 1 : 0) << line;
    EXPECT_EQ(count('E'), format->exponent_bits) << line;
    EXPECT_EQ(count('M'), format->mantissa_bits) << line;
  }
}

// The line of a format in the table of a number.
std::string line_of(const std::string& text, const std::string& format) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(format + " ")) return line;
  }
  return {};
}

TEST(FormatTable, ANumberIsShownInEachFormat) {
  const std::string small = number_text(1e-7, 1);
  EXPECT_NE(line_of(small, "f16").find("0 00000 0000000010"), std::string::npos) << small;
  EXPECT_NE(line_of(small, "f16").find("subnormal"), std::string::npos) << small;
  EXPECT_EQ(line_of(small, "bf16").find("subnormal"), std::string::npos) << small;
  EXPECT_NE(line_of(number_text(1e-8, 1), "f16").find("underflows to zero"), std::string::npos);
  const std::string scaled = number_text(1e-7, 32768);
  EXPECT_TRUE(scaled.starts_with("1e-07 x 32768 = 0.0032768\n")) << scaled;
  EXPECT_NE(line_of(scaled, "f16").find("0.0032768"), std::string::npos) << scaled;
  const std::string large = number_text(-65520, 1);  // the tie to infinity
  EXPECT_NE(line_of(large, "f16").find("1 11111 0000000000"), std::string::npos) << large;
  EXPECT_NE(line_of(large, "f16").find("overflows"), std::string::npos) << large;
  EXPECT_NE(line_of(large, "e2m1").find("overflows"), std::string::npos) << large;
  EXPECT_EQ(line_of(number_text(448, 1), "e4m3").find("overflows"), std::string::npos);
  EXPECT_NE(line_of(number_text(448, 1), "e4m3fnuz").find("overflows"), std::string::npos);
}

// By hand: 0.1 lies between 0.09375 and 0.1015625 of e4m3, 1.101b x 2^-4.
TEST(FormatTable, ANumberInOneFormatHasItsNeighborsAndBits) {
  EXPECT_EQ(number_text(0.1, 1, spec::e4m3),
            "format   e4m3: 8 bits, bias 7, largest 448\n"
            "above    0.109375       0x1e\n"
            "value    0.1015625      0x1d\n"
            "below    0.09375        0x1c\n"
            "error    0.0015625      1.56%\n"
            "bits     S EEEE MMM\n"
            "         0 0011 101\n");
  const std::string integer = number_text(-0.7, 10, parse("int4"));
  EXPECT_NE(integer.find("above    -6             0xa\n"), std::string::npos) << integer;
  EXPECT_NE(integer.find("value    -7             0x9\n"), std::string::npos) << integer;
  EXPECT_NE(integer.find("below    -\n"), std::string::npos) << integer;
  EXPECT_NE(integer.find("S MMM\n         1 001\n"), std::string::npos) << integer;
  const std::string large = number_text(1e6, 1, spec::e5m2);
  EXPECT_NE(large.find("below    57344          0x7b\n"), std::string::npos) << large;
  EXPECT_NE(large.find("note     overflows\n"), std::string::npos) << large;
}

// 1 + 2^-8 + 2^-60 lies above the tie between 1 and 1 + 2^-7 of bf16; as an f32 it is the tie.
TEST(FormatTable, NumbersAreRoundedOnce) {
  const double above = 1 + std::ldexp(1, -8) + std::ldexp(1, -52);
  EXPECT_NE(number_text(above, 1, spec::bf16).find("value    1.0078125"), std::string::npos);
  EXPECT_NE(number_text(1 + std::ldexp(1, -8), 1, spec::bf16).find("value    1 "),
            std::string::npos);
  EXPECT_NE(number_text(1e-300, 1, spec::e5m2).find("underflows"), std::string::npos);
}

TEST(FormatTable, ANumberAsJson) {
  const Format e3m4 = parse("e3m4");
  const std::string text = number_json(-15.4, 1, {&e3m4, 1});
  const json::Document document = json::parse(text, {.reader = "test", .file = "number"});
  EXPECT_EQ(document.root().at("number").number(), -15.4);
  const json::Value& row = document.root().at("formats").array().at(0);
  EXPECT_EQ(row.at("name").string(), "e3m4");
  EXPECT_EQ(row.at("code").number(), 0xef);
  EXPECT_EQ(row.at("value").number(), -15.5);
  EXPECT_EQ(row.at("above").number(), -15);
  EXPECT_TRUE(row.at("below").is_null());
  EXPECT_NEAR(row.at("error").number(), -0.1, 1e-12);
  EXPECT_EQ(json::parse(number_json(70000, 1, number_formats()), {.reader = "test", .file = "n"})
                .root()
                .at("formats")
                .array()
                .size(),
            number_formats().size());
}

TEST(FormatTable, LayoutsCountSignExponentAndMantissa) {
  const std::string text = layout_text();
  for (const char* line : {"1 + 4 + 3 = 8 bits", "1 + 5 + 2 = 8 bits", "1 + 8 + 7 = 16 bits",
                           "1 + 5 + 10 = 16 bits", "1 + 8 + 23 = 32 bits", " 8 + 0 = 8 bits"})
    EXPECT_NE(text.find(line), std::string::npos) << line;
}

}  // namespace
}  // namespace binade::formats
