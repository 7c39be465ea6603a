#include "binade/formats/blocks/block_format.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "support/error_of.h"
#include "support/paths.h"

// Compares with llama.cpp and the gguf package; tests/golden/block_formats.py describes the file.

namespace binade::formats {
namespace {

std::vector<std::byte> block_bytes(const std::string& hex) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoul(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

std::vector<float> block_values(const std::string& hex) {
  const std::vector<std::byte> bytes = block_bytes(hex);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::vector<std::byte> quantized(const BlockFormat& format, const std::vector<float>& values) {
  std::vector<std::byte> bytes(
      static_cast<size_t>(format.bytes_of(static_cast<int64_t>(values.size()))));
  quantize_blocks(format, values, bytes);
  return bytes;
}

std::vector<float> dequantized(const BlockFormat& format, const std::vector<std::byte>& bytes) {
  std::vector<float> values(bytes.size() / static_cast<size_t>(format.bytes) *
                            static_cast<size_t>(format.elements));
  dequantize_blocks(format, bytes, values);
  return values;
}

// The lines of the golden data that begin with a kind, as words.
std::vector<std::vector<std::string>> golden_lines(const std::string& kind) {
  std::ifstream file(test::golden_dir() + "/block_formats.txt");
  EXPECT_TRUE(file);
  std::vector<std::vector<std::string>> lines;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::vector<std::string> fields;
    for (std::string word; words >> word;) fields.push_back(word);
    if (fields.at(0) == kind) lines.push_back(fields);
  }
  return lines;
}

TEST(BlockFormat, CodesAreThoseOfLlamaCpp) {
  std::map<std::string, std::vector<float>> values;
  for (const auto& line : golden_lines("values")) values[line[1]] = block_values(line[2]);
  std::set<std::string> formats;
  for (const auto& line : golden_lines("codes")) {
    const BlockFormat* format = find_block_format(line[2]);
    ASSERT_NE(format, nullptr) << line[2];
    formats.insert(line[2]);
    EXPECT_EQ(quantized(*format, values.at(line[1])), block_bytes(line[3]))
        << line[1] << " in " << line[2];
  }
  EXPECT_EQ(formats, (std::set<std::string>{"q4_0", "q8_0", "q4_k", "q6_k", "mxfp4"}));
}

TEST(BlockFormat, ValuesAreThoseOfTheGgufPackage) {
  std::set<std::string> formats;
  for (const auto& line : golden_lines("decoded")) {
    const BlockFormat* format = find_block_format(line[1]);
    ASSERT_NE(format, nullptr) << line[1];
    formats.insert(line[1]);
    const std::vector<float> values = dequantized(*format, block_bytes(line[2]));
    const std::vector<float> expected = block_values(line[3]);
    ASSERT_EQ(values.size(), expected.size());
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_EQ(std::bit_cast<uint32_t>(values[i]), std::bit_cast<uint32_t>(expected[i]))
          << line[1] << " element " << i;
  }
  EXPECT_EQ(formats.size(), block_formats().size());
}

TEST(BlockFormat, TableSaysWhatFilesHold) {
  for (const BlockFormat& format : block_formats()) {
    EXPECT_EQ(find_block_format(format.ggml_type), &format);
    EXPECT_EQ(format.bytes_of(3 * format.elements), 3 * format.bytes);
  }
  EXPECT_EQ(find_block_format("q3_k"), nullptr);
  EXPECT_EQ(find_block_format(4), nullptr);
  EXPECT_EQ(find_block_format("mxfp4")->ggml_type, 39);
  EXPECT_EQ(find_block_format("q4_k")->bytes, 144);
}

// Each block is coded by itself, wherever it stands in a row.
TEST(BlockFormat, BlocksAreIndependent) {
  for (const BlockFormat& format : block_formats()) {
    if (format.quantize == nullptr) continue;
    const auto count = static_cast<size_t>(format.elements);
    std::vector<float> row(3 * count);
    for (size_t i = 0; i < row.size(); ++i)
      row[i] = std::sin(static_cast<float>(i * i)) * static_cast<float>(1 + i / count);
    const std::vector<std::byte> bytes = quantized(format, row);
    const auto size = static_cast<std::ptrdiff_t>(format.bytes);
    for (std::ptrdiff_t b = 0; b < 3; ++b) {
      const auto at = row.begin() + b * format.elements;
      EXPECT_EQ(quantized(format, {at, at + format.elements}),
                std::vector<std::byte>(bytes.begin() + b * size, bytes.begin() + (b + 1) * size))
          << format.name;
    }
  }
}

TEST(BlockFormat, RefusesWhatABlockCannotHold) {
  for (const BlockFormat& format : block_formats()) {
    if (format.quantize == nullptr) continue;
    const auto count = static_cast<size_t>(format.elements);
    for (const float bad : {std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity(), std::nanf("")}) {
      for (const size_t at : {size_t{0}, count / 2 + 1, count - 1}) {
        std::vector<float> values(2 * count, 0.5F);
        values[count + at] = bad;
        const std::string message = test::error_of([&] { quantized(format, values); });
        EXPECT_NE(message.find("block 1"), std::string::npos) << format.name << ": " << message;
        EXPECT_NE(message.find("finite values"), std::string::npos) << message;
      }
    }
    // f16 holds the scales of all formats but mxfp4, whose scale is an exponent.
    std::vector<float> large(count, 1.0F);
    large[3] = 3e38F;
    if (format.name == "mxfp4") {
      const std::vector<float> values = dequantized(format, quantized(format, large));
      EXPECT_EQ(values[3], 0x1p125F * 6) << "the largest number of its scale";
      continue;
    }
    const std::string message = test::error_of([&] { quantized(format, large); });
    EXPECT_NE(message.find("within the range of f16"), std::string::npos) << message;
  }
}

TEST(BlockFormat, RefusesFormatsThatAreOnlyReadAndOtherSizes) {
  std::vector<float> values(40, 1.0F);
  std::vector<std::byte> bytes(64);
  const auto quantize = [&](const char* name, size_t count, size_t size) {
    return test::error_of([&] {
      quantize_blocks(*find_block_format(name), std::span(values).first(count),
                      std::span(bytes).first(size));
    });
  };
  EXPECT_NE(quantize("q5_0", 32, 22).find("only read"), std::string::npos);
  EXPECT_NE(quantize("q8_0", 40, 34).find("blocks of 32 values in 34 bytes"), std::string::npos);
  EXPECT_NE(quantize("q8_0", 32, 35).find("32 values and 35 bytes"), std::string::npos);
}

// Below 2^-126 * 127 or so, the inverse of a scale is infinite; f16 holds such a scale as 0.
TEST(BlockFormat, SubnormalValuesBecomeZero) {
  for (const BlockFormat& format : block_formats()) {
    if (format.quantize == nullptr || format.name == "mxfp4") continue;
    std::vector<float> values(static_cast<size_t>(format.elements), 1e-41F);
    values[1] = -3e-41F;
    values[2] = 0;
    for (const float value : dequantized(format, quantized(format, values)))
      EXPECT_EQ(value, 0) << format.name;
  }
  const BlockFormat& mxfp4 = *find_block_format("mxfp4");
  std::vector<float> values(32, 0x1p-130F);  // subnormal, and so is half of the smallest scale
  values[5] = 0x1p-127F;
  const std::vector<float> back = dequantized(mxfp4, quantized(mxfp4, values));
  EXPECT_EQ(back[5], 0x1p-127F);
  EXPECT_EQ(back[6], 0);
}

}  // namespace
}  // namespace binade::formats
