#include "binade/formats/weights/weight_format.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <string>

#include "support/error_of.h"
#include "support/paths.h"

// Compares with the compressed-tensors package; tests/golden/weight_formats.py describes the file.

namespace binade::formats {
namespace {

template <class T>
std::vector<T> weight_data(const std::string& hex) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<uint8_t>(std::stoul(hex.substr(i, 2), nullptr, 16)));
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

struct GoldenWeight {
  int64_t rows = 0, columns = 0;
  std::vector<float> values;
  std::map<std::string, GroupedWeight> coded;  // by format

  WeightRows matrix() const { return {values.data(), rows, columns}; }
};

std::map<std::string, GoldenWeight> golden_weights() {
  std::ifstream file(test::golden_dir() + "/weight_formats.txt");
  EXPECT_TRUE(file);
  std::map<std::string, GoldenWeight> weights;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string kind, name, format, first, second, third;
    words >> kind >> name;
    GoldenWeight& weight = weights[name];
    if (kind == "values") {
      words >> weight.rows >> weight.columns >> first;
      weight.values = weight_data<float>(first);
      continue;
    }
    words >> format >> first >> second >> third;
    weight.coded[format] = {weight_data<uint8_t>(first), weight_data<float>(second),
                            third.empty() ? 1.0F : weight_data<float>(third).at(0)};
  }
  return weights;
}

const WeightFormat& known(const std::string& name) {
  const WeightFormat* format = find_weight_format(name);
  EXPECT_NE(format, nullptr) << name;
  return *format;
}

// A negative zero is one of the package's codes for 0; which one a value gets depends on its path.
uint8_t without_zero_sign(uint8_t code, const std::string& format) {
  const uint8_t negative_zero = format == "nvfp4" ? 0x08 : format == "fp8-block" ? 0x80 : code;
  return code == negative_zero && format != "int4-g128" ? 0 : code;
}

TEST(WeightFormat, CodesAndScalesAreThoseOfCompressedTensors) {
  const auto weights = golden_weights();
  ASSERT_GE(weights.size(), 9U);
  size_t compared = 0;
  for (const auto& [name, weight] : weights) {
    for (const auto& [format, expected] : weight.coded) {
      const GroupedWeight found = encode_weight(known(format), weight.matrix());
      ASSERT_EQ(found.scales, expected.scales) << name << " " << format;
      EXPECT_EQ(found.tensor_scale, expected.tensor_scale) << name << " " << format;
      ASSERT_EQ(found.codes.size(), expected.codes.size()) << name << " " << format;
      for (size_t i = 0; i < found.codes.size(); ++i, ++compared)
        ASSERT_EQ(without_zero_sign(found.codes[i], format),
                  without_zero_sign(expected.codes[i], format))
            << name << " " << format << " element " << i << ": " << weight.values[i];
    }
  }
  EXPECT_GT(compared, 20000U);
}

// A code's value by the format's definition, in double.
double value_by_hand(const std::string& format, uint8_t code, double scale, double tensor_scale) {
  if (format == "int4-g128") return (static_cast<double>(code) - 8) * scale;
  if (format == "nvfp4") {
    constexpr double magnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    return magnitudes[code & 7] * ((code & 8) != 0 ? -1 : 1) * (scale / tensor_scale);
  }
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return magnitude * ((code & 0x80) != 0 ? -1 : 1) * scale;
}

TEST(WeightFormat, DecodesWhatTheFormatsDefine) {
  for (const auto& [name, weight] : golden_weights()) {
    for (const auto& [format, coded] : weight.coded) {
      const WeightFormat& known_format = known(format);
      std::vector<float> values(weight.values.size());
      decode_weight(known_format, coded, weight.rows, weight.columns, values.data());
      const int64_t groups = weight.columns / known_format.group_columns;
      for (int64_t row = 0; row < weight.rows; ++row) {
        for (int64_t column = 0; column < weight.columns; ++column) {
          const auto i = static_cast<size_t>(row * weight.columns + column);
          const int64_t group =
              row / known_format.group_rows * groups + column / known_format.group_columns;
          const double expected = value_by_hand(
              format, coded.codes[i], coded.scales[static_cast<size_t>(group)], coded.tensor_scale);
          // A division and a multiplication in f32.
          ASSERT_NEAR(values[i], expected, std::abs(expected) * 0x1p-23 + 0x1p-149)
              << name << " " << format << " element " << i;
        }
      }
    }
  }
}

// The values that training sees are those of the codes that the file gets.
TEST(WeightFormat, RoundsToTheValuesOfItsCodes) {
  const auto weights = golden_weights();
  for (const WeightFormat& format : weight_formats()) {
    for (const auto& [name, weight] : weights) {
      if (weight.columns % format.group_columns != 0) continue;
      std::vector<float> rounded(weight.values.size()), decoded(weight.values.size());
      if (format.block != nullptr) {
        if (name == "huge" || name == "tiny") continue;  // beyond f16 scales
        std::vector<std::byte> blocks(static_cast<size_t>(
            format.block->bytes_of(static_cast<int64_t>(weight.values.size()))));
        quantize_blocks(*format.block, weight.values, blocks);
        dequantize_blocks(*format.block, blocks, decoded);
      } else {
        decode_weight(format, encode_weight(format, weight.matrix()), weight.rows, weight.columns,
                      decoded.data());
      }
      round_weight(format, weight.matrix(), rounded.data());
      EXPECT_EQ(rounded, decoded) << format.name << " " << name;
      EXPECT_TRUE(name == "zero" || name == "one_value" || rounded != weight.values)
          << format.name << " " << name;
    }
  }
}

TEST(WeightFormat, ValuesThatAreNotFiniteMakeTheirGroupNaN) {
  for (const WeightFormat& format : weight_formats()) {
    const int64_t columns = 2 * format.group_columns, rows = format.group_rows + 1;
    for (const float bad :
         {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> values(static_cast<size_t>(rows * columns));
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 13) - 6.5F;
      values[static_cast<size_t>(columns - 1)] = bad;  // of the second group
      std::vector<float> rounded(values.size());
      round_weight(format, {values.data(), rows, columns}, rounded.data());
      const bool shares_tensor_scale =
          format.groups != nullptr && format.groups->tensor_scale != nullptr;
      EXPECT_EQ(std::isnan(rounded[0]), shares_tensor_scale) << format.name;
      EXPECT_TRUE(std::isnan(rounded[static_cast<size_t>(columns - 1)])) << format.name;
      EXPECT_TRUE(std::isnan(rounded[static_cast<size_t>(format.group_columns)])) << format.name;
      EXPECT_EQ(std::isnan(rounded.back()), shares_tensor_scale) << format.name;
    }
  }
}

TEST(WeightFormat, RefusesRowsThatGroupsDoNotDivide) {
  const std::vector<float> values(96);
  std::vector<float> rounded(96);
  const std::string error = test::error_of([&] {
    round_weight(known("int4-g128"), {values.data(), 1, 96}, rounded.data());
  });
  EXPECT_NE(error.find("int4-g128"), std::string::npos) << error;
  EXPECT_NE(error.find("multiple of 128"), std::string::npos) << error;
  EXPECT_NE(error.find("96"), std::string::npos) << error;
  EXPECT_EQ(find_weight_format("q4_1"), nullptr);  // only read
  EXPECT_EQ(find_weight_format("q9_0"), nullptr);
  EXPECT_NE(weight_format_names().find("q8_0, "), std::string::npos);
}

}  // namespace
}  // namespace binade::formats
