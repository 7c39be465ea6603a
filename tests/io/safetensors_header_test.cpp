#include "binade/io/safetensors_header.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "binade/base/error.h"

namespace binade::io {
namespace {

HeaderText header_of(std::string_view text, int64_t data_bytes) {
  return {.text = text,
          .file = "model.safetensors",
          .data_start = 8 + static_cast<int64_t>(text.size()),
          .data_bytes = data_bytes};
}

constexpr const char* two_tensors =
    R"({"__metadata__":{"format":"pt","a":""},"b":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
    R"( "a.b":{"data_offsets": [24, 30] ,"shape":[6],"dtype":"U8"},"none":{"dtype":"I8","shape":[0,9],)"
    R"("data_offsets":[30,30]},"scalar":{"dtype":"BF16","shape":[],"data_offsets":[30,32]}}   )";

TEST(SafetensorsHeader, PlainReaderGivesEveryField) {
  const auto header = read_plain_header(header_of(two_tensors, 32));
  ASSERT_TRUE(header.has_value());
  const int64_t start = header_of(two_tensors, 32).data_start;
  const std::vector<TensorEntry> expected = {{"b", "F32", DType::f32, {2, 3}, start, 24},
                                             {"a.b", "U8", DType::u8, {6}, start + 24, 6},
                                             {"none", "I8", std::nullopt, {0, 9}, start + 30, 0},
                                             {"scalar", "BF16", DType::bf16, {}, start + 30, 2}};
  EXPECT_EQ(header->entries, expected);
  EXPECT_EQ(header->metadata, (Metadata{{"format", "pt"}, {"a", ""}}));
}

TEST(SafetensorsHeader, BothReadersAgree) {
  for (const char* text : {two_tensors, "{}", R"({"__metadata__":{}})",
                           " {\n\t\"a\" : "
                           R"({"dtype":"F64","shape":[1,1,4],"data_offsets":[0,32]}})"}) {
    const HeaderText header = header_of(text, 32);
    ASSERT_TRUE(read_plain_header(header).has_value()) << text;
    EXPECT_EQ(*read_plain_header(header), read_header_document(header)) << text;
  }
}

TEST(SafetensorsHeader, PlainReaderLeavesFaultsToTheDocument) {
  const std::string one = R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  const std::string once = "{" + one + "}", twice = "{" + one + "," + one + "}";
  EXPECT_TRUE(read_plain_header(header_of(once, 4)).has_value());
  EXPECT_FALSE(read_plain_header(header_of(once, 3)).has_value());
  EXPECT_FALSE(read_plain_header(header_of(twice, 4)).has_value());
}

// Valid JSON that the plain reader leaves to the other one.
TEST(SafetensorsHeader, UnusualHeadersAreReadToo) {
  for (const char* name : {R"(a\"b)", R"(\u0041)", "\xC3\xA4", "\x7f"}) {
    const std::string text =
        fmt::format(R"({{"{}":{{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}}})", name);
    const HeaderText header = header_of(text, 4);
    EXPECT_FALSE(read_plain_header(header).has_value()) << text;
    EXPECT_EQ(read_header(header).entries.size(), 1u) << text;
  }
}

// One character of a valid header missing, repeated or replaced: the plain reader has no result
// unless the other one has the same.
TEST(SafetensorsHeader, NoDamageGetsPastThePlainReader) {
  const std::string valid = two_tensors;
  int accepted = 0;
  const auto check = [&accepted](const std::string& text) {
    const HeaderText header = header_of(text, 32);
    const auto plain = read_plain_header(header);
    if (!plain) return;
    ++accepted;
    try {
      EXPECT_EQ(*plain, read_header_document(header)) << text;
    } catch (const Error& error) {
      ADD_FAILURE() << text << ": " << error.what();
    }
  };
  for (size_t i = 0; i < valid.size(); ++i) {
    check(std::string(valid).erase(i, 1));
    check(std::string(valid).insert(i, 1, valid[i]));
    for (const char c : std::string("\0\"\\{}[],:. 0139-+eE\x80\n", 21))
      check(std::string(valid).replace(i, 1, 1, c));
    check(valid.substr(0, i));
  }
  EXPECT_GT(accepted, 100);  // other names, other spaces
}

TEST(SafetensorsHeader, RefusesThroughTheDocument) {
  const std::string twice =
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  try {
    read_header(header_of(twice, 4));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(R"("a" twice)"), std::string::npos) << error.what();
  }
}

// As large as a file may have it. Work that grows with the square would outlast ctest's limit.
TEST(SafetensorsHeader, OpensSixHundredThousandTensors) {
  constexpr int64_t count = 600'000;
  std::string text = R"({"__metadata__":{"format":"pt"})";
  for (int64_t i = 0; i < count; ++i)
    text += fmt::format(
        R"(,"model.layers.{}.weight":{{"dtype":"F32","shape":[1,1],"data_offsets":[{},{}]}})", i,
        4 * i, 4 * i + 4);
  text += "}";
  const Header header = read_header(header_of(text, 4 * count));
  ASSERT_EQ(std::ssize(header.entries), count);
  EXPECT_EQ(header.entries.back().offset - header.entries.front().offset, 4 * (count - 1));
}

}  // namespace
}  // namespace binade::io
