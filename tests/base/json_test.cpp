#include "binade/base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "binade/base/error.h"
#include "binade/base/random.h"
#include "support/error_of.h"

namespace binade::json {
namespace {

using ::testing::HasSubstr;

Document read(std::string_view text) {
  return parse(text, {.reader = "reader", .file = "some.json"});
}

TEST(Json, ReadsEveryKindOfValue) {
  const Document document =
      read(R"( {"n":null,"t":true,"f":false,"i":-12,"d":2.5e-3,"s":"a\"\u00e9\n\ud83d\ude00",
                                      "a":[1,[],{}],"o":{"x":{"y":7}}} )");
  const Value& root = document.root();
  ASSERT_EQ(root.object().size(), 8u);
  EXPECT_EQ(root.object()[0].name, "n");
  EXPECT_EQ(root.object()[7].name, "o");
  EXPECT_TRUE(root.at("n").is_null());
  EXPECT_TRUE(root.at("t").boolean());
  EXPECT_FALSE(root.at("f").boolean());
  EXPECT_EQ(root.at("i").integer(-12, -12), -12);
  EXPECT_EQ(root.at("i").number(), -12.0);
  EXPECT_EQ(root.at("d").number(), 2.5e-3);
  EXPECT_EQ(root.at("s").string(), "a\"\xC3\xA9\n\xF0\x9F\x98\x80");
  EXPECT_EQ(root.at("a").array().size(), 3u);
  EXPECT_EQ(root.at("o").at("x").at("y").integer(0, 10), 7);
  EXPECT_EQ(root.find("absent"), nullptr);
}

TEST(Json, KnowsWhereValuesStart) {
  const std::string text = R"({ "a" : [10, "two" ,{"b":true}], "c":1.5 ,"d" : null})";
  const Document document = parse(text, {.reader = "reader", .file = "f", .offset = 100});
  const Value& root = document.root();
  const auto offset_of = [&](const char* token) {
    return 100 + static_cast<int64_t>(text.find(token));
  };
  EXPECT_EQ(root.offset(), 100);
  EXPECT_EQ(root.at("a").offset(), offset_of("[10"));
  EXPECT_EQ(root.at("a").array()[0].offset(), offset_of("10"));
  EXPECT_EQ(root.at("a").array()[1].offset(), offset_of("\"two"));
  EXPECT_EQ(root.at("a").array()[2].offset(), offset_of("{\"b"));
  EXPECT_EQ(root.at("a").array()[2].at("b").offset(), offset_of("true"));
  EXPECT_EQ(root.at("c").offset(), offset_of("1.5"));
  EXPECT_EQ(root.at("d").offset(), offset_of("null"));
}

TEST(Json, KeepsWholeNumbersExact) {
  const Document document =
      read("[9223372036854775807, -9223372036854775808, 9223372036854775808, 3.0, 1e2]");
  const std::vector<Value>& items = document.root().array();
  constexpr int64_t low = std::numeric_limits<int64_t>::min(),
                    high = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(items[0].integer(low, high), high);
  EXPECT_EQ(items[1].integer(low, high), low);
  for (size_t i = 2; i < 5; ++i) EXPECT_THROW(items[i].integer(low, high), Error) << i;
  EXPECT_EQ(items[2].number(), 0x1p63);
}

struct Bad {
  std::string text;
  int64_t offset;
  std::string part;
};

TEST(Json, QuotesKeepPrintableCharactersAndEscapeOthers) {
  for (int c = 0; c < 256; ++c) {
    const std::string text(1, static_cast<char>(c));
    const std::string expected = c == '"' || c == '\\'   ? "\\" + text
                                 : c >= 0x20 && c < 0x7F ? text
                                                         : fmt::format("\\x{:02x}", c);
    EXPECT_EQ(in_quotes(text), "\"" + expected + "\"");
  }
}

TEST(Json, RefusesBadTextSayingWhere) {
  const std::string nested_65 = std::string(65, '[') + std::string(65, ']');
  const Bad table[] = {
      {"", 0, "unexpected end of input"},
      {"  ", 2, "unexpected end of input"},
      {"{\"a\":1,\"a\":2}", 7, "\"a\" twice"},
      {"{\"x\":{\"a\":1 , \"\\u0061\":2}}", 14, "\"a\" twice"},
      {"{\"a\":1,\r\n\t\"a\":2}", 10, "\"a\" twice"},
      {"\xEF\xBB\xBF{}", 0, "byte order mark"},
      {"{} {}", 3, "expected end of input"},
      {"[1]x", 3, "invalid literal"},
      {std::string("{}\0", 3), 2, "zero byte"},
      {std::string("{}\0garbage", 10), 2, "zero byte"},
      {std::string("\"a\0b\"", 5), 2, "zero byte"},
      {"[1,]", 3, "unexpected ']'"},
      {"[1 2]", 3, "unexpected number"},
      {"{\"a\" 1}", 5, "expected ':'"},
      {"{\"a\":}", 5, "unexpected '}'"},
      {"{\"a\":1,}", 7, "expected string literal"},
      {"{a:1}", 1, "invalid literal"},
      {"[1", 2, "unexpected end of input"},
      {"\"abc", 4, "missing closing quote"},
      {"[NaN]", 1, "invalid literal"},
      {"[Infinity]", 1, "invalid literal"},
      {"[-Infinity]", 2, "invalid number"},
      {"[1e999]", 5, "number overflow"},
      {"[-1e400]", 6, "number overflow"},
      {"[01]", 2, "unexpected number"},
      {"[+1]", 1, "invalid literal"},
      {"[.5]", 1, "invalid literal"},
      {"[1.]", 3, "expected digit after '.'"},
      {"[0x10]", 2, "invalid literal"},
      {"['a']", 1, "invalid literal"},
      {"[1] // comment", 4, "invalid literal"},
      {"/* c */ 1", 0, "invalid literal"},
      {"\"\x80\"", 1, "ill-formed UTF-8"},
      {"\"\xC0\xAF\"", 1, "ill-formed UTF-8"},
      {"\"\xED\xA0\x80\"", 2, "ill-formed UTF-8"},
      {"\"\xF5\x80\x80\x80\"", 1, "ill-formed UTF-8"},
      {"\"\xE2\x82\"", 3, "ill-formed UTF-8"},
      {"\"\\ud800\"", 7, "surrogate"},
      {"\"\\udc00\"", 6, "surrogate"},
      {"\"\\x41\"", 2, "forbidden character after backslash"},
      {"\"\\u12g4\"", 5, "must be followed by 4 hex digits"},
      {"\"a\tb\"", 2, "control character"},
      {"\"a\nb\"", 2, "control character"},
      {nested_65, 64, "at most 64 levels"},
      {std::string(200000, '['), 64, "at most 64 levels"},
      {"tru", 3, "invalid literal"},
      {"True", 0, "invalid literal"},
  };
  for (const Bad& bad : table) {
    const std::string error = test::error_of([&] { read(bad.text); });
    EXPECT_THAT(error, HasSubstr("reader: some.json at byte " + std::to_string(bad.offset)))
        << bad.text.substr(0, 40);
    EXPECT_THAT(error, HasSubstr(bad.part)) << bad.text.substr(0, 40);
    EXPECT_LT(error.size(), 400u);
  }
}

TEST(Json, TakesNestingUpToTheLimit) {
  EXPECT_NO_THROW(read(std::string(64, '[') + std::string(64, ']')));
}

TEST(Json, BoundsTheNumberOfValues) {
  std::string text = "[";
  for (int64_t i = 1; i < max_values - 1; ++i) text += "1,";
  EXPECT_NO_THROW(read(text + "1]"));
  EXPECT_THAT(test::error_of([&] { read(text + "1,1]"); }),
              HasSubstr("at most " + std::to_string(max_values) + " values"));
}

TEST(Json, AccessorsNameFileByteAndPath) {
  const Document document = read(R"({"a":{"b":[1,{"c":"text"}]},"n":300,"x":1.5})");
  const Value& root = document.root();
  const Value& c = root.at("a").at("b").array()[1].at("c");
  EXPECT_EQ(test::error_of([&] { c.integer(0, 9); }),
            "reader: some.json at byte 18 (a.b[1].c): expected a whole number from 0 to 9, found "
            "\"text\"");
  EXPECT_THAT(test::error_of([&] { root.at("n").integer(0, 255); }),
              HasSubstr("(n): expected a whole number from 0 to 255, found 300"));
  EXPECT_THAT(test::error_of([&] { root.at("x").integer(0, 9); }), HasSubstr("found 1.5"));
  EXPECT_THAT(test::error_of([&] { root.at("n").string(); }),
              HasSubstr("expected a string, found 300"));
  EXPECT_THAT(test::error_of([&] { root.at("n").boolean(); }), HasSubstr("expected true or false"));
  EXPECT_THAT(test::error_of([&] { root.at("n").object(); }), HasSubstr("expected an object"));
  EXPECT_THAT(test::error_of([&] { root.at("a").array(); }),
              HasSubstr("expected an array, found an object of 1"));
  EXPECT_THAT(test::error_of([&] { c.number(); }), HasSubstr("expected a number"));
  EXPECT_THAT(test::error_of([&] { root.at("missing"); }),
              HasSubstr("expected a member \"missing\", found none of that name"));
  EXPECT_THAT(test::error_of([&] { c.refuse("this", "that", "do so"); }),
              HasSubstr("expected this, found that; do so"));
}

TEST(Json, MessagesEscapeControlCharacters) {
  const std::string error = test::error_of(
      [] { read("{\"\\u001b[31m" + std::string(500, 'x') + "\":1}").root().at("y").string(); });
  EXPECT_EQ(error.find('\x1b'), std::string::npos);
  const Document document = read("[\"\\u001b]0;title\\u0007" + std::string(500, 'x') + "\"]");
  const std::string long_error = test::error_of([&] { document.root().array()[0].number(); });
  EXPECT_THAT(long_error, HasSubstr("\\x1b]0;title\\x07"));
  EXPECT_LT(long_error.size(), 250u);
}

TEST(JsonWriter, WritesOneLineOrIndented) {
  const auto write = [](int indent) {
    Writer writer(indent);
    writer.begin_object()
        .key("b")
        .value(1)
        .key("a")
        .begin_array()
        .value(true)
        .value(nullptr)
        .value("x\"\n")
        .end_array();
    writer.key("e").begin_object().end_object().key("d").value(0.1).end_object();
    return writer.text();
  };
  EXPECT_EQ(write(0), R"({"b":1,"a":[true,null,"x\"\n"],"e":{},"d":0.1})");
  EXPECT_EQ(write(2),
            "{\n  \"b\": 1,\n  \"a\": [\n    true,\n    null,\n    \"x\\\"\\n\"\n  ],\n  \"e\": "
            "{},\n  \"d\": 0.1\n}");
}

TEST(JsonWriter, NumbersReadBackTheSame) {
  std::vector<double> values = {
      0.0, -0.0, 1.0, 1e-5, 1e300, 5e-324, 0.1, 1.0 / 3, std::numeric_limits<double>::max()};
  for (uint64_t i = 0; i < 2000; ++i) {
    const uint64_t bits = uint64_t{random::bits(1, 2, 2 * i)} << 32 | random::bits(1, 2, 2 * i + 1);
    double value;
    std::memcpy(&value, &bits, sizeof value);
    if (std::isfinite(value)) values.push_back(value);
  }
  Writer writer;
  writer.begin_array();
  for (const double value : values) writer.value(value);
  writer.value(std::numeric_limits<int64_t>::min()).end_array();
  const Document document = read(writer.text());
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(document.root().array()[i].number(), values[i]);
  EXPECT_EQ(document.root().array().back().integer(std::numeric_limits<int64_t>::min(), 0),
            std::numeric_limits<int64_t>::min());
}

TEST(JsonWriter, TextReadsBackTheSame) {
  std::string every;
  for (int c = 1; c < 128; ++c) every += static_cast<char>(c);
  every += "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80";
  Writer writer;
  writer.begin_object().key(every).value(every).end_object();
  const Document document = read(writer.text());
  EXPECT_EQ(document.root().at(every).string(), every);
}

// So that a terminal shows the text and does not obey it.
TEST(JsonWriter, EscapesControlAndFormatCharacters) {
  EXPECT_EQ(Writer().value("a\u009b\u202e\x7f\x1b").text(), R"("a\u009b\u202e\u007f\u001b")");
  EXPECT_EQ(Writer().begin_object().key("\u202e").value(1).end_object().text(), R"({"\u202e":1})");
}

TEST(JsonWriter, RefusesWhatJsonCannotHold) {
  EXPECT_THROW(Writer().value(std::nan("")), Error);
  EXPECT_THROW(Writer().value(std::numeric_limits<double>::infinity()), Error);
  EXPECT_THROW(Writer().value("\xFF"), Error);
}

}  // namespace
}  // namespace binade::json
