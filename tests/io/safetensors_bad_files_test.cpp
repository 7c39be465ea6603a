#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "binade/io/safetensors.h"
#include "io/temporary_folder.h"
#include "support/error_of.h"

namespace binade::io {
namespace {

using ::binade::testing::TemporaryFolder;
using ::testing::HasSubstr;

const std::string good_header =
    R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
    R"("b":{"dtype":"I64","shape":[2],"data_offsets":[24,40]}})";
constexpr size_t good_data = 40;

std::string length_prefix(uint64_t length) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes;
}

std::string file_of(const std::string& header, size_t data_bytes = good_data) {
  return length_prefix(header.size()) + header + std::string(data_bytes, '\1');
}

// The good file with one piece of its header replaced.
std::string with(const std::string& from, const std::string& to) {
  std::string header = good_header;
  const size_t at = header.find(from);
  if (at == std::string::npos) throw std::logic_error("not in the good header: " + from);
  return file_of(header.replace(at, from.size(), to));
}

struct BadFile {
  const char* what;
  std::string bytes;
  std::vector<std::string> parts;  // of the message
};

void expect_refused(const std::vector<BadFile>& files) {
  const TemporaryFolder folder;
  for (const BadFile& bad : files) {
    const auto path = folder.put("bad.safetensors", bad.bytes);
    std::string message = "no error";
    try {
      load_safetensors(path);
    } catch (const Error& error) {
      message = error.what();
    }
    EXPECT_THAT(message, HasSubstr("safetensors: " + path.string())) << bad.what;
    for (const std::string& part : bad.parts) EXPECT_THAT(message, HasSubstr(part)) << bad.what;
    EXPECT_LT(message.size(), 600u) << bad.what;
  }
}

TEST(SafetensorsBadFiles, TheGoodOneIsGood) {
  const TemporaryFolder folder;
  const StateDict tensors = load_safetensors(folder.put("good.safetensors", file_of(good_header)));
  EXPECT_EQ(tensors.at("a").shape(), (Shape{2, 3}));
  EXPECT_EQ(tensors.at("b").data<int64_t>()[1], 0x0101010101010101);
  EXPECT_NO_THROW(
      load_safetensors(folder.put("padded.safetensors", file_of(good_header + "     "))));
}

TEST(SafetensorsBadFiles, Envelope) {
  const std::string good = file_of(good_header);
  expect_refused({
      {"empty", "", {"expected at least 8 bytes, found 0"}},
      {"seven bytes", good.substr(0, 7), {"expected at least 8 bytes, found 7"}},
      {"nothing but a length",
       good.substr(0, 8),
       {"at byte 0", "a header of 8 to 0 bytes", "cut short"}},
      {"length zero",
       length_prefix(0) + "{}      ",
       {"at byte 0", "a header of 8 to 8 bytes, found 0"}},
      {"length under eight", length_prefix(2) + "{}", {"at byte 0", "found 2"}},
      {"length past the end",
       length_prefix(1000) + good_header,
       {"at byte 0", "found 1000", "cut short"}},
      {"length 2^63",
       length_prefix(uint64_t{1} << 63) + good_header,
       {"found 9223372036854775808"}},
      {"length 2^64 - 1",
       length_prefix(~uint64_t{0}) + good_header,
       {"found 18446744073709551615", "not a safetensors file"}},
      {"length one too small",
       length_prefix(good_header.size() - 1) + good.substr(8),
       {"expected JSON", "unexpected end of input"}},
      {"length one too large",
       length_prefix(good_header.size() + 1) + good.substr(8),
       {"expected JSON"}},
      {"a text", "Once upon a time there was a tensor.", {"at byte 0", "not a safetensors file"}},
      {"a pickle", "\x80\x02}q\x01(X\x04\x00\x00\x00test", {"at byte 0"}},
      {"a zip", "PK\x03\x04\x14\x08\x08\x08\x08 and more", {"at byte 0"}},
      {"cut in the header", good.substr(0, 60), {"at byte 0", "cut short"}},
      {"cut in the data",
       good.substr(0, good.size() - 1),
       {"(b.data_offsets)", "within the 39 bytes of data, found 40", "cut short"}},
      {"data all gone", good.substr(0, good.size() - 40), {"within the 0 bytes of data, found 24"}},
      {"one byte more",
       good + "x",
       {"expected the end of the file after the last tensor, found 1 bytes more"}},
      {"many bytes more", good + std::string(5000, 'x'), {"found 5000 bytes more"}},
      {"no tensors but data", file_of("{}      "), {"at byte 16", "found 40 bytes more"}},
  });
}

TEST(SafetensorsBadFiles, HeaderOverTheCap) {
  const TemporaryFolder folder;
  const auto path = folder.put("big.safetensors", length_prefix(100'000'001) + "{");
  std::filesystem::resize_file(path, 200'000'000);
  EXPECT_THAT(test::error_of([&] { load_safetensors(path); }),
              HasSubstr("at byte 0: expected a header of 8 to 100000000 bytes, found 100000001"));
}

TEST(SafetensorsBadFiles, HeaderText) {
  std::string bomb = "{\"a\":";
  for (int i = 0; i < 100000; ++i) bomb += "{\"a\":";
  const std::string array_bomb = "{\"a\":" + std::string(3'000'000, '[');
  expect_refused({
      {"array", file_of("[1,2,3,4,5]"), {"at byte 8", "expected '{', found \"[\""}},
      {"space first", file_of(" " + good_header), {"at byte 8", "expected '{'"}},
      {"byte order mark", file_of("\xEF\xBB\xBF" + good_header), {"at byte 8", "\\xef"}},
      {"string", file_of("\"tensors\""), {"at byte 8"}},
      {"padded with zeros",
       file_of(good_header + std::string(3, '\0')),
       {"a zero byte", std::to_string(8 + good_header.size())}},
      {"zero byte inside", with("\"a\"", std::string("\"a\0\"", 4)), {"a zero byte"}},
      {"two objects", file_of(good_header + good_header), {"expected end of input"}},
      {"not closed",
       file_of(good_header.substr(0, good_header.size() - 1)),
       {"unexpected end of input"}},
      {"comma too many", with("40]}}", "40]},}"), {"expected string literal"}},
      {"comment", with("\"a\":", "/*a*/\"a\":"), {"invalid literal"}},
      {"single quotes", with("\"dtype\"", "'dtype'"), {"invalid literal"}},
      {"bad UTF-8 in a name", with("\"a\"", "\"\xFF\xFE\""), {"UTF-8"}},
      {"overlong UTF-8", with("\"a\"", "\"\xC0\xAF\""), {"UTF-8"}},
      {"half a surrogate", with("\"a\"", "\"\\ud800\""), {"surrogate"}},
      {"control character", with("\"a\"", "\"a\n\""), {"control character"}},
      {"name twice", with("\"b\":", "\"a\":"), {"at byte 96", "names that differ", "\"a\" twice"}},
      {"name twice, escaped", with("\"b\":", "\"\\u0061\":"), {"\"a\" twice"}},
      {"metadata twice",
       with("\"b\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":[24,40]}",
            "\"__metadata__\":{}"),
       {"\"__metadata__\" twice"}},
      {"metadata key twice",
       with("\"format\":\"pt\"", "\"format\":\"pt\",\"format\":\"tf\""),
       {"\"format\" twice"}},
      {"field twice",
       with("\"dtype\":\"F32\"", "\"dtype\":\"F32\",\"dtype\":\"F32\""),
       {"\"dtype\" twice"}},
      {"nested objects", file_of(bomb), {"at most 64 levels"}},
      {"nested arrays", file_of(array_bomb), {"at most 64 levels"}},
      {"NaN", with("[2,3]", "[NaN,3]"), {"invalid literal"}},
      {"number past double", with("[2,3]", "[1e999,3]"), {"number overflow"}},
      {"header null", file_of("{null:1}"), {"expected string literal"}},
  });
}

TEST(SafetensorsBadFiles, Entries) {
  const std::string entry = "{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}";
  expect_refused({
      {"null", with(entry, "null"), {"(a)", "expected an object, found null"}},
      {"array", with(entry, "[1,2]"), {"(a)", "expected an object, found an array of 2"}},
      {"string", with(entry, "\"F32\""), {"(a)", "expected an object, found \"F32\""}},
      {"number", with(entry, "24"), {"(a)", "expected an object, found 24"}},
      {"nothing in it", with(entry, "{}"), {"(a)", "expected a member \"dtype\""}},
      {"no dtype",
       with("\"dtype\":\"F32\",", ""),
       {"(a)", "expected a member \"dtype\", found none"}},
      {"no shape", with("\"shape\":[2,3],", ""), {"(a)", "expected a member \"shape\""}},
      {"no offsets",
       with(",\"data_offsets\":[0,24]", ""),
       {"(a)", "expected a member \"data_offsets\""}},
      {"a field more",
       with("\"dtype\":\"F32\"", "\"dtype\":\"F32\",\"order\":\"C\""),
       {"no fields but dtype, shape and data_offsets, found \"order\""}},
      {"a field misspelt", with("\"data_offsets\":[0", "\"offsets\":[0"), {"found \"offsets\""}},
      {"unknown dtype", with("F32", "F31"), {"(a.dtype)", "one of F64 F32", "found \"F31\""}},
      {"dtype in small letters", with("F32", "f32"), {"(a.dtype)", "found \"f32\""}},
      {"dtype of another world", with("F32", "C64"), {"(a.dtype)", "found \"C64\""}},
      {"dtype empty", with("\"F32\"", "\"\""), {"(a.dtype)", "found \"\""}},
      {"dtype a number", with("\"F32\"", "32"), {"(a.dtype)", "expected a string, found 32"}},
      {"dtype null", with("\"F32\"", "null"), {"(a.dtype)", "expected a string, found null"}},
      {"dtype without end", with("F32", std::string(100000, 'F')), {"(a.dtype)", "FFF..."}},
      {"metadata no object",
       with("{\"format\":\"pt\"}", "\"pt\""),
       {"(__metadata__)", "expected an object, found \"pt\""}},
      {"metadata null", with("{\"format\":\"pt\"}", "null"), {"(__metadata__)", "found null"}},
      {"metadata of numbers",
       with("\"pt\"", "1"),
       {"(__metadata__.format)", "expected a string, found 1"}},
      {"metadata nested",
       with("\"pt\"", "{\"x\":\"y\"}"),
       {"(__metadata__.format)", "expected a string, found an object of 1"}},
  });
}

TEST(SafetensorsBadFiles, Shapes) {
  expect_refused({
      {"no array", with("[2,3]", "6"), {"(a.shape)", "expected an array, found 6"}},
      {"null", with("[2,3]", "null"), {"(a.shape)", "expected an array"}},
      {"negative", with("[2,3]", "[-2,3]"), {"(a.shape[0])", "found -2"}},
      {"two negatives", with("[2,3]", "[-2,-3]"), {"(a.shape[0])", "found -2"}},
      {"fraction", with("[2,3]", "[2.5,3]"), {"(a.shape[0])", "whole number", "found 2.5"}},
      {"a float that is whole", with("[2,3]", "[2.0,3]"), {"(a.shape[0])", "whole number"}},
      {"text", with("[2,3]", "[\"2\",3]"), {"(a.shape[0])", "found \"2\""}},
      {"truth", with("[2,3]", "[true,3]"), {"(a.shape[0])", "found true"}},
      {"hole", with("[2,3]", "[2,null]"), {"(a.shape[1])", "found null"}},
      {"nested", with("[2,3]", "[[2],3]"), {"(a.shape[0])", "found an array of 1"}},
      {"2^63", with("[2,3]", "[9223372036854775808]"), {"(a.shape[0])", "whole number"}},
      {"2^64 + 6", with("[2,3]", "[18446744073709551622]"), {"(a.shape[0])", "whole number"}},
      {"1e30", with("[2,3]", "[1e30]"), {"(a.shape[0])", "whole number"}},
      {"product past 64 bits",
       with("[2,3]", "[4294967296,4294967296]"),
       {"(a.shape)", "fewer than 2^63 bytes"}},
      {"product that wraps to 6",
       with("[2,3]", "[9223372036854775807,9223372036854775807,6]"),
       {"fewer than 2^63 bytes"}},
      {"bytes past 63 bits", with("[2,3]", "[2305843009213693952]"), {"fewer than 2^63 bytes"}},
      {"overflow beside a zero",
       with("[2,3]", "[0,4294967296,4294967296]"),
       {"fewer than 2^63 bytes"}},
      {"too large for its bytes",
       with("[2,3]", "[2,4]"),
       {"(a.data_offsets)", "expected 32 bytes for F32 [2, 4], found 24"}},
      {"too small for its bytes",
       with("[2,3]", "[5]"),
       {"expected 20 bytes for F32 [5], found 24"}},
      {"scalar for six", with("[2,3]", "[]"), {"expected 4 bytes for F32 [], found 24"}},
      {"zero for six", with("[2,3]", "[2,0]"), {"expected 0 bytes for F32 [2, 0], found 24"}},
      {"a long shape of the wrong size",
       with(
           "[2,3]", "[2" +
                        [] {
                          std::string ones;
                          for (int i = 0; i < 50000; ++i) ones += ",1";
                          return ones;
                        }() +
                        "]"),
       {"expected 8 bytes for F32 [2, 1, 1", ", ...], found 24"}},
      {"as many dimensions as are shown",
       with("[2,3]", "[2,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]"),
       {"F32 [2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], found 24"}},
      {"wider type", with("F32", "F64"), {"expected 48 bytes for F64 [2, 3], found 24"}},
      {"nine dimensions",
       with("[2,3]", "[1,1,1,1,1,1,1,2,3]"),
       {"\"a\"", "at most 8 dimensions, found 9"}},
      {"a shape without end",
       with(
           "[2,3]", "[2,3" +
                        [] {
                          std::string ones;
                          for (int i = 0; i < 100000; ++i) ones += ",1";
                          return ones;
                        }() +
                        "]"),
       {"at most 8 dimensions"}},
  });
}

TEST(SafetensorsBadFiles, Offsets) {
  const std::string a = "[0,24]", b = "[24,40]";
  expect_refused({
      {"no array", with(a, "0"), {"(a.data_offsets)", "expected an array, found 0"}},
      {"none",
       with(a, "[]"),
       {"(a.data_offsets)", "expected a begin and an end, found an array of 0"}},
      {"one", with(a, "[24]"), {"(a.data_offsets)", "expected a begin and an end"}},
      {"three", with(a, "[0,12,24]"), {"(a.data_offsets)", "found an array of 3"}},
      {"negative begin", with(a, "[-24,0]"), {"(a.data_offsets[0])", "found -24"}},
      {"negative end", with(a, "[0,-24]"), {"(a.data_offsets[1])", "found -24"}},
      {"fraction", with(a, "[0,24.5]"), {"(a.data_offsets[1])", "found 24.5"}},
      {"text", with(a, "[\"0\",24]"), {"(a.data_offsets[0])", "found \"0\""}},
      {"2^64", with(a, "[0,18446744073709551616]"), {"(a.data_offsets[1])", "whole number"}},
      {"out of order",
       with(a, "[24,0]"),
       {"(a.data_offsets)", "expected a begin before the end, found 24 and 0"}},
      {"past the end",
       with(b, "[24,48]"),
       {"(b.data_offsets)", "within the 40 bytes of data, found 48"}},
      {"far past the end", with(b, "[24,4611686018427387904]"), {"found 4611686018427387904"}},
      {"both past the end", with(b, "[1024,1040]"), {"found 1040"}},
      {"span too short", with(a, "[0,20]"), {"expected 24 bytes for F32 [2, 3], found 20"}},
      {"span too long", with(a, "[0,28]"), {"expected 24 bytes", "found 28"}},
      {"overlap", with(b, "[16,32]"), {"(\"b\")", "an overlap"}},
      {"the same bytes twice", with(b, "[0,16]"), {"an overlap"}},
      {"hole between",
       file_of(
           [] {
             std::string h = good_header;
             return h.replace(h.find("[24,40]"), 7, "[32,48]");
           }(),
           48),
       {"(\"b\")", "a hole"}},
      {"hole in front",
       file_of(
           [] {
             std::string h = good_header;
             h.replace(h.find("[0,24]"), 6, "[8,32]");
             return h.replace(h.find("[24,40]"), 7, "[32,48]");
           }(),
           48),
       {"(\"a\")", "a hole"}},
      {"empty tensor inside another",
       with("\"shape\":[2],\"data_offsets\":[24,40]", "\"shape\":[0],\"data_offsets\":[8,8]"),
       {"(\"b\")", "an overlap"}},
      {"empty tensor past the end",
       with("\"shape\":[2],\"data_offsets\":[24,40]", "\"shape\":[0],\"data_offsets\":[48,48]"),
       {"found 48"}},
  });
}

TEST(SafetensorsBadFiles, Data) {
  const auto one = [](const std::string& dtype, int bytes, const std::string& data) {
    const std::string header = "{\"x\":{\"dtype\":\"" + dtype +
                               "\",\"shape\":[1],\"data_offsets\":[0," + std::to_string(bytes) +
                               "]}}";
    return length_prefix(header.size()) + header + data;
  };
  expect_refused({
      {"bool of 2",
       one("BOOL", 1, "\x02"),
       {"(\"x\")", "expected 0 or 1 in a BOOL tensor, found 2"}},
      {"bool of 255", one("BOOL", 1, "\xFF"), {"found 255"}},
      {"I8", one("I8", 1, "x"), {"found I8, which Binade has no tensors of"}},
      {"I16", one("I16", 2, "xx"), {"found I16"}},
      {"U16", one("U16", 2, "xx"), {"found U16"}},
      {"U32", one("U32", 4, "xxxx"), {"found U32"}},
      {"U64", one("U64", 8, "xxxxxxxx"), {"found U64"}},
      {"F8_E8M0", one("F8_E8M0", 1, "x"), {"found F8_E8M0"}},
  });
}

TEST(SafetensorsBadFiles, Paths) {
  const TemporaryFolder folder;
  for (const auto& path : {folder / "absent.safetensors", folder.path()}) {
    EXPECT_THAT(test::error_of([&] { load_safetensors(path); }),
                HasSubstr("safetensors: " + path.string()));
  }
}

// With any single byte changed, a good file is refused with an Error or read as tensors of valid
// shapes.
TEST(SafetensorsBadFiles, NoByteOfTheHeaderCanDoHarm) {
  const TemporaryFolder folder;
  const std::string good = file_of(good_header);
  int refused = 0, taken = 0;
  for (size_t at = 0; at < 8 + good_header.size(); ++at) {
    for (const int change : {0x01, 0x20, 0x80, 0xFF}) {
      std::string bytes = good;
      bytes[at] = static_cast<char>(bytes[at] ^ change);
      try {
        for (const auto& [name, tensor] : load_safetensors(folder.put("x.safetensors", bytes)))
          ASSERT_LE(tensor.bytes(), 40);
        ++taken;
      } catch (const Error&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 8 * taken);
}

TEST(SafetensorsBadFiles, Indices) {
  const TemporaryFolder folder;
  save_safetensors(folder / "one.safetensors", {{"a", Tensor::empty({2}, DType::f32)}});
  save_safetensors(folder / "secret.safetensors", {{"a", Tensor::empty({2}, DType::f32)}});
  const auto map = [](const std::string& file) { return "{\"weight_map\":{\"a\":" + file + "}}"; };
  const BadFile table[] = {
      {"empty", "", {"unexpected end of input"}},
      {"no JSON", "weights", {"invalid literal"}},
      {"array", "[]", {"expected an object, found an array of 0"}},
      {"no map", "{\"metadata\":{}}", {"expected a member \"weight_map\""}},
      {"map an array", "{\"weight_map\":[]}", {"(weight_map)", "expected an object"}},
      {"metadata a number",
       "{\"metadata\":1,\"weight_map\":{}}",
       {"(metadata)", "expected an object"}},
      {"tensor twice",
       "{\"weight_map\":{\"a\":\"one.safetensors\",\"a\":\"one.safetensors\"}}",
       {"\"a\" twice"}},
      {"file a number", map("1"), {"(weight_map.a)", "expected a string"}},
      {"file empty", map("\"\""), {"the name of a file beside the index"}},
      {"file in a folder",
       map("\"sub/one.safetensors\""),
       {"(weight_map.a)", "the name of a file beside the index"}},
      {"file with a leading slash",
       map("\"/etc/passwd\""),
       {"the name of a file beside the index", "/etc/passwd"}},
      {"file above", map("\"../secret.safetensors\""), {"the name of a file beside the index"}},
      {"file above, escaped",
       map("\"..\\u002fsecret.safetensors\""),
       {"the name of a file beside the index"}},
      {"two dots", map("\"..\""), {"the name of a file beside the index"}},
      {"one dot", map("\".\""), {"the name of a file beside the index"}},
      {"backslash", map("\"..\\\\secret.safetensors\""), {"the name of a file beside the index"}},
      {"zero byte", map("\"one.safetensors\\u0000.txt\""), {"the name of a file beside the index"}},
      {"shard absent", map("\"two.safetensors\""), {"two.safetensors", "No such file"}},
      {"tensor not in the shard",
       "{\"weight_map\":{\"b\":\"one.safetensors\"}}",
       {"(weight_map.b)", "a shard that holds \"b\""}},
  };
  for (const BadFile& bad : table) {
    const auto path = folder.put("model.safetensors.index.json", bad.bytes);
    std::string message = "no error";
    try {
      TensorStore store(path);
    } catch (const Error& error) {
      message = error.what();
    }
    EXPECT_THAT(message, HasSubstr("safetensors: ")) << bad.what;
    for (const std::string& part : bad.parts) EXPECT_THAT(message, HasSubstr(part)) << bad.what;
  }
}

}  // namespace
}  // namespace binade::io
