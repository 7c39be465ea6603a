#include "binade/formats/table.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "binade/formats/format.h"

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
  const nlohmann::json table = nlohmann::json::parse(table_json());
  ASSERT_EQ(table.size(), std::size(all));
  for (size_t i = 0; i < std::size(all); ++i) {
    const Format& format = *all[i];
    const nlohmann::json& row = table[i];
    EXPECT_EQ(row.size(), 13u);
    EXPECT_EQ(row.at("name"), format.name);
    EXPECT_EQ(row.at("bits"), format.bits());
    EXPECT_EQ(row.at("exponent"), format.exponent_bits);
    EXPECT_EQ(row.at("mantissa"), format.mantissa_bits);
    EXPECT_EQ(row.at("bias"), format.bias());
    EXPECT_EQ(row.at("max").get<double>(), format.max());
    EXPECT_EQ(row.at("min_normal").get<double>(), format.min_normal());
    EXPECT_EQ(row.at("epsilon").get<double>(), format.epsilon());
    EXPECT_EQ(row.at("decimal_digits").get<double>(), format.decimal_digits());
    EXPECT_EQ(row.at("infinity"), format.has_infinity());
    EXPECT_EQ(row.at("nan"), format.has_nan());
    EXPECT_EQ(row.at("use"), format.use);
    if (format.has_subnormals())
      EXPECT_EQ(row.at("min_subnormal").get<double>(), format.min_subnormal());
    else
      EXPECT_TRUE(row.at("min_subnormal").is_null());
  }
}

}  // namespace
}  // namespace binade::formats
