#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "binade/base/json.h"
#include "binade/base/parallel.h"
#include "binade/base/text.h"
#include "binade/data/tokenizer_json/pipeline.h"
#include "binade/data/tokenizer_json/read.h"
#include "binade/data/tokenizer_json/tokenizer_json.h"
#include "binade/data/tokenizer_json/unicode.h"
#include "binade/io/file.h"
#include "support/paths.h"

// What the tokenizers package made of texts (tests/golden/tokenizer_json.py).
namespace binade::data {
namespace {

namespace fs = std::filesystem;
using json::Value;

fs::path golden_folder() {
  const char* other = std::getenv("BINADE_TOKENIZER_CASES");
  return other != nullptr ? fs::path(other) : fs::path(test::golden_dir() + "/tokenizers");
}

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(golden_folder())) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".cases.json")) names.push_back(name.substr(0, name.size() - 11));
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<int64_t> ids_in(const Value& value) {
  std::vector<int64_t> ids;
  for (const Value& id : value.array()) ids.push_back(id.integer(0, INT32_MAX));
  return ids;
}

// The package shows what is not UTF-8 as U+FFFD.
std::string shown(const std::string& bytes) {
  std::string storage;
  return std::string(valid_utf8(bytes, storage));
}

class TokenizerGolden : public ::testing::TestWithParam<std::string> {
 protected:
  TokenizerGolden()
      : tokenizer_(open_tokenizer_json(golden_folder() / (GetParam() + ".json"))),
        cases_(json::parse(
            io::read_text(golden_folder() / (GetParam() + ".cases.json"), "test", 1 << 28),
            {"test", GetParam()})) {}

  const Value& cases(const char* name) const { return cases_.root().at(name); }

  std::unique_ptr<const Tokenizer> tokenizer_;
  json::Document cases_;
};

TEST_P(TokenizerGolden, EncodesAsThePackageDoes) {
  EXPECT_EQ(tokenizer_->vocab(), cases("vocab").integer(1, INT32_MAX));
  int64_t different = 0, count = 0;
  for (const Value& item : cases("encoded").array()) {
    const std::string& text = item.array()[0].string();
    const auto ids = ids_in(item.array()[1]);
    ++count;
    if (tokenizer_->encode(text) == ids) continue;
    if (++different < 5) {
      EXPECT_EQ(tokenizer_->encode(text), ids) << visible(text);
    }
  }
  EXPECT_EQ(different, 0) << "of " << count;
}

TEST_P(TokenizerGolden, DecodesAsThePackageDoes) {
  int64_t different = 0, count = 0;
  for (const Value& item : cases("encoded").array()) {
    const std::string text = shown(tokenizer_->decode(ids_in(item.array()[1])));
    ++count;
    if (text != item.array()[2].string() && ++different < 5) {
      EXPECT_EQ(visible(text), visible(item.array()[2].string()));
    }
  }
  EXPECT_EQ(different, 0) << "of " << count;
}

TEST_P(TokenizerGolden, DecodesAnyIds) {
  const bool has_bytes = tokenizer_->model().find("ByteFallback") != std::string_view::npos;
  for (const Value& item : cases("decoded").array()) {
    const auto ids = ids_in(item.array()[0]);
    const std::string& text = item.array()[1].string();
    // For tokens <0xXX> that make no character the package shows a U+FFFD each; here they stay
    // bytes, which may yet become one.
    if (has_bytes && text.find("\xEF\xBF\xBD") != std::string::npos) continue;
    EXPECT_EQ(shown(tokenizer_->decode(ids)), text) << ::testing::PrintToString(ids);
  }
}

// The whole text as one part, which the package would see.
class OnePart final : public Tokenizer {
 public:
  explicit OnePart(const fs::path& path)
      : pipeline_(read_tokenizer_json(io::read_text(path, "test", 1 << 28), path.string()).parts) {}
  int64_t vocab() const override { return pipeline_.vocab(); }
  std::string decode(std::span<const int64_t>) const override { return {}; }
  std::string_view model() const override { return {}; }

 protected:
  size_t part_end(std::string_view text, size_t) const override { return text.size(); }
  std::vector<int32_t> encode_part(std::string_view text, size_t begin, size_t end) const override {
    return pipeline_.encode(text, begin, end);
  }

 private:
  Pipeline pipeline_;
};

TEST_P(TokenizerGolden, PartsHaveTheIdsOfTheWhole) {
  std::string text;
  uint64_t state = 1;
  const auto& items = cases("encoded").array();
  while (text.size() < 400'000) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    text += items[(state >> 33U) % items.size()].array()[0].string();
    text += "\n \n\n"[(state >> 60U) % 4];
  }
  const OnePart whole(golden_folder() / (GetParam() + ".json"));
  size_t parts = 0;
  std::vector<int64_t> ids;
  tokenizer_->encode_in_parts(text, [&](std::span<const int32_t> part, size_t) {
    ids.insert(ids.end(), part.begin(), part.end());
    ++parts;
  });
  EXPECT_GT(parts, 4u);
  EXPECT_EQ(ids == whole.encode(text), true);
  const int before = threads();
  for (const int count : {1, 3}) {
    set_threads(count);
    EXPECT_EQ(ids == tokenizer_->encode(text), true) << count << " threads";
  }
  set_threads(before);
}

TEST_P(TokenizerGolden, KnowsTheTemplate) {
  const TemplateIds around = tokenizer_->template_ids();
  std::vector<int64_t> ids = tokenizer_->encode_prompt("a");
  ids.insert(ids.end(), around.after.begin(), around.after.end());
  EXPECT_EQ(ids, ids_in(cases("with_template")));
}

INSTANTIATE_TEST_SUITE_P(Families, TokenizerGolden, ::testing::ValuesIn(golden_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace binade::data
