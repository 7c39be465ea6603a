#include "binade/io/gguf/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "binade/io/gguf/writer.h"
#include "binade/ops/create/create.h"
#include "io/temporary_folder.h"
#include "support/error_of.h"

namespace binade::io::gguf {
namespace {

using ::binade::testing::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class T>
std::string raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string raw_text(std::string_view text) {
  return raw(static_cast<uint64_t>(text.size())) + std::string(text);
}

std::string raw_key(std::string_view name, uint32_t type, const std::string& value) {
  return raw_text(name) + raw(type) + value;
}

// A file without tensors.
File file_with(const TemporaryFolder& folder, const std::vector<std::string>& keys) {
  std::string bytes = "GGUF" + raw(uint32_t{3}) + raw(int64_t{0}) + raw(int64_t(keys.size()));
  for (const std::string& key : keys) bytes += key;
  return File(folder.put("keys.gguf", bytes));
}

// Every type of values, at its limits.
TEST(GgufFile, ReadsKeysOfEveryType) {
  const TemporaryFolder folder;
  const File file = file_with(
      folder, {raw_key("u8", 0, raw(uint8_t{200})), raw_key("i8", 1, raw(int8_t{-100})),
               raw_key("u16", 2, raw(uint16_t{60000})), raw_key("i16", 3, raw(int16_t{-30000})),
               raw_key("u32", 4, raw(uint32_t{4000000000})), raw_key("i32", 5, raw(int32_t{-7})),
               raw_key("f32", 6, raw(0.1F)), raw_key("yes", 7, raw(uint8_t{1})),
               raw_key("no", 7, raw(uint8_t{0})), raw_key("text", 8, raw_text("a\xC3\xA4")),
               raw_key("u64", 10, raw(uint64_t{1} << 63)), raw_key("i64", 11, raw(INT64_MIN)),
               raw_key("f64", 12, raw(1e300)), raw_key("empty", 8, raw_text(""))});
  const auto integer = [&](const char* name) {
    return file.key(name).integer(INT64_MIN, INT64_MAX);
  };
  EXPECT_EQ(integer("u8"), 200);
  EXPECT_EQ(integer("i8"), -100);
  EXPECT_EQ(integer("u16"), 60000);
  EXPECT_EQ(integer("i16"), -30000);
  EXPECT_EQ(integer("u32"), 4000000000);
  EXPECT_EQ(integer("i32"), -7);
  EXPECT_EQ(integer("i64"), INT64_MIN);
  EXPECT_EQ(file.key("f32").number(), static_cast<double>(0.1F));
  EXPECT_EQ(file.key("f64").number(), 1e300);
  EXPECT_EQ(file.key("i32").number(), -7);
  EXPECT_TRUE(file.key("yes").flag());
  EXPECT_FALSE(file.key("no").flag());
  EXPECT_EQ(file.key("text").text(), "a\xC3\xA4");
  EXPECT_EQ(file.key("empty").text(), "");
  EXPECT_THAT(test::error_of([&] { integer("u64"); }), HasSubstr("below 2^63"));
  EXPECT_EQ(file.key("u64").describe(), "9223372036854775808");
  EXPECT_EQ(file.key("yes").describe(), "true");
  EXPECT_EQ(file.find_key("none"), nullptr);
}

TEST(GgufFile, RefusesValuesOfOtherTypesByKey) {
  const TemporaryFolder folder;
  const File file =
      file_with(folder, {raw_key("n", 4, raw(uint32_t{5})), raw_key("t", 8, raw_text("five")),
                         raw_key("f", 6, raw(0.5F))});
  const auto of = [](const auto& f) { return test::error_of(f); };
  EXPECT_THAT(of([&] { file.key("t").integer(0, 9); }), HasSubstr("keys.gguf at byte "));
  EXPECT_THAT(of([&] { file.key("t").integer(0, 9); }), HasSubstr("from 0 to 9, found \"five\""));
  EXPECT_THAT(of([&] { file.key("n").integer(6, 9); }), HasSubstr("from 6 to 9, found 5"));
  EXPECT_THAT(of([&] { file.key("f").integer(0, 9); }), HasSubstr("found 0.5"));
  EXPECT_THAT(of([&] { file.key("n").text(); }), HasSubstr("(n): expected a string, found 5"));
  EXPECT_THAT(of([&] { file.key("n").flag(); }), HasSubstr("expected a bool"));
  EXPECT_THAT(of([&] { file.key("t").number(); }), HasSubstr("expected a finite number"));
  EXPECT_THAT(of([&] { file.key("t").texts(); }), HasSubstr("expected an array of strings"));
  EXPECT_THAT(of([&] { file.key("absent"); }), HasSubstr("the key absent"));
}

TEST(GgufFile, ReadsArrays) {
  const TemporaryFolder folder;
  Writer out;
  out.add_texts("texts", {"", "b", "longer than others"});
  out.add_i32s("numbers", std::vector<int32_t>{3, -4, 5});
  out.add_f32s("scores", std::vector<float>{0.5F, -2});
  out.add_texts("none", {});
  out.write(folder / "arrays.gguf");
  const File file(folder / "arrays.gguf");
  EXPECT_THAT(file.key("texts").texts(), ElementsAre("", "b", "longer than others"));
  EXPECT_THAT(file.key("numbers").integers(), ElementsAre(3, -4, 5));
  EXPECT_THAT(file.key("scores").numbers(), ElementsAre(0.5, -2));
  EXPECT_THAT(file.key("none").texts(), ElementsAre());
  EXPECT_EQ(file.key("texts").describe(), "an array of 3 string");
  EXPECT_THAT(test::error_of([&] { file.key("scores").integers(); }),
              HasSubstr("an array of whole numbers, found an array of 2 f32"));
}

Tensor counted(const Shape& shape) {
  Tensor values = Tensor::empty(shape, DType::f32);
  auto* data = static_cast<float*>(values.raw_data());
  for (int64_t i = 0; i < values.numel(); ++i) data[i] = static_cast<float>(i % 50) - 20;
  return values;
}

// Each tensor begins where the one before ends, padded.
TEST(GgufFile, TensorsAreReadAsTheyWereWritten) {
  const TemporaryFolder folder;
  Writer out;
  const auto add = [&](const char* name, const Shape& shape, const char* type) {
    out.add_tensor(name, shape, *find_tensor_type(type), [shape] { return counted(shape); });
  };
  add("odd", {3, 5}, "F32");
  add("half", {7}, "f16");
  add("brain", {2, 3, 4}, "bf16");
  add("blocks", {3, 64}, "Q8_0");
  add("empty", {0, 32}, "Q4_0");
  out.write(folder / "t.gguf");
  const File file(folder / "t.gguf");
  ASSERT_EQ(file.tensors().size(), 5u);
  EXPECT_EQ(describe(*file.find("blocks")), "Q8_0 [3, 64]");
  EXPECT_EQ(file.find("blocks")->bytes, 3 * 2 * 34);
  for (const TensorInfo& tensor : file.tensors()) EXPECT_EQ(tensor.offset % 32, 0) << tensor.name;
  const auto expect_counted = [&](const char* name, DType dtype) {
    const Tensor found = file.load(*file.find(name));
    EXPECT_EQ(found.dtype(), dtype) << name;
    EXPECT_EQ(to_vector(found), to_vector(counted(found.shape()))) << name;
  };
  expect_counted("odd", DType::f32);
  expect_counted("half", DType::f16);
  expect_counted("brain", DType::bf16);
  EXPECT_EQ(file.load(*file.find("empty")).numel(), 0);
  const std::vector<double> blocks = to_vector(file.load(*file.find("blocks")));
  for (size_t i = 0; i < blocks.size(); ++i)
    EXPECT_NEAR(blocks[i], static_cast<double>(i % 50) - 20, 29.0 / 254 + 0.01) << i;
}

TEST(GgufFile, WriterRefusesWhatATypeCannotHold) {
  const TemporaryFolder folder;
  const auto written = [&](float value, const char* type) {
    return test::error_of([&] {
      Writer out;
      out.add_tensor("w", {2, 32}, *find_tensor_type(type), [value] {
        Tensor values = counted({2, 32});
        static_cast<float*>(values.raw_data())[40] = value;
        return values;
      });
      out.write(folder / "w.gguf");
    });
  };
  EXPECT_THAT(written(1e5F, "F16"), HasSubstr("finite in F16"));
  EXPECT_THAT(written(3.4e38F, "BF16"), HasSubstr("finite in BF16"));
  EXPECT_THAT(written(NAN, "F32"), HasSubstr("finite in F32"));
  EXPECT_THAT(written(NAN, "Q8_0"), HasSubstr("finite values"));
  EXPECT_THAT(written(1e30F, "Q4_0"), HasSubstr("range of f16"));
  EXPECT_FALSE(std::filesystem::exists(folder / "w.gguf"));
  EXPECT_EQ(written(1e5F, "BF16"), "");
  Writer out;
  const auto values = [] { return counted({2, 40}); };
  EXPECT_THAT(test::error_of([&] {
                out.add_tensor("w", {2, 40}, *find_tensor_type("Q8_0"), values);
              }),
              HasSubstr("Q8_0 [2, 40]"));
  EXPECT_THAT(test::error_of([&] {
                out.add_tensor("w", {2, 40}, *find_tensor_type("IQ4_NL"), values);
              }),
              HasSubstr("type that is written"));
}

TEST(GgufFile, TypesByNumberAndName) {
  EXPECT_EQ(find_tensor_type(int64_t{39})->name, "MXFP4");
  EXPECT_EQ(find_tensor_type("q6_k")->number, 14);
  EXPECT_EQ(find_tensor_type(int64_t{4}), nullptr);
  EXPECT_EQ(find_tensor_type("q9"), nullptr);
  for (const formats::BlockFormat& format : formats::block_formats()) {
    const TensorType* type = find_tensor_type(int64_t{format.ggml_type});
    ASSERT_NE(type, nullptr) << format.name;
    EXPECT_EQ(type->elements, format.elements) << format.name;
    EXPECT_EQ(type->bytes, format.bytes) << format.name;
    EXPECT_EQ(find_tensor_type(format.name), type);
  }
}

}  // namespace
}  // namespace binade::io::gguf
