#include "binade/data/corpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/base/error.h"
#include "data/small_model.h"
#include "io/temporary_folder.h"
#include "support/error_of.h"

namespace binade::data {
namespace {

using ::testing::HasSubstr;

TEST(Corpus, BuiltinHoldsTheSources) {
  const std::string_view text = builtin_corpus();
  EXPECT_GT(text.size(), 200'000u);
  EXPECT_THAT(text, HasSubstr("std::string_view builtin_corpus()"));
  EXPECT_EQ(text.find('\0'), std::string_view::npos);
}

TEST(Corpus, FolderIsReadInTheOrderOfPaths) {
  const testing::TemporaryFolder folder;
  std::filesystem::create_directories(folder / "b");
  std::filesystem::create_directories(folder / ".git");
  folder.put("c.txt", "third");
  folder.put("b/x.txt", "second\n");
  folder.put("a.txt", "first");
  folder.put(".hidden", "no");
  folder.put(".git/config", "no");
  folder.put("image.png", std::string_view("\x89PNG\0", 5));
  EXPECT_EQ(read_text(folder.path().string()), "first\nsecond\nthird\n");
}

TEST(Corpus, JsonLinesAreTheirTexts) {
  const testing::TemporaryFolder folder;
  const auto path =
      folder.put("a.jsonl", "{\"text\":\"one\\ntwo\",\"id\":1}\n\n{\"text\":\"\\u00e4\"}\r\n");
  EXPECT_EQ(read_text(path.string()), "one\ntwo\n\u00E4\n");
  EXPECT_EQ(read_text(folder.path().string()), "one\ntwo\n\u00E4\n");
  folder.put("a.jsonl", "{\"text\":\"one\"}\n{\"body\":\"two\"}\n");
  EXPECT_THAT(test::error_of([&] { read_text(path.string()); }),
              ::testing::AllOf(::testing::HasSubstr("a.jsonl at byte 15"),
                               ::testing::HasSubstr("\"text\"")));
}

TEST(Corpus, RefusesWhatIsNotThere) {
  const testing::TemporaryFolder folder;
  const std::pair<std::string, const char*> cases[] = {
      {(folder / "none.txt").string(), "No such file"},
      {folder.put("empty.txt", "").string(), "an empty file"},
      {folder.path().string() + "/", "none in it"},
  };
  for (const auto& [path, message] : cases) {
    try {
      read_text(path);
      FAIL() << path;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(message));
      EXPECT_THAT(error.what(), HasSubstr(path));
    }
  }
}

TEST(Corpus, ChoosesTheReaderByName) {
  const testing::TemporaryFolder folder;
  EXPECT_EQ(read_tokens("builtin", 256).size(), static_cast<int64_t>(builtin_corpus().size()));
  EXPECT_EQ(read_tokens(folder.put("a.txt", "abcd").string(), 256).size(), 4);
  EXPECT_EQ(read_tokens(folder.put("a.bin", "abcd").string(), 65536).size(), 2);
}

TEST(Corpus, AFolderOfTokenFilesIsReadInTheOrderOfNames) {
  const testing::TemporaryFolder folder;
  folder.put("b.bin", "cdcd");
  folder.put("a.bin", "abab");
  folder.put("meta.pkl", "not a token");
  const Tokens tokens = read_tokens(folder.path().string(), 65536);
  ASSERT_EQ(tokens.size(), 4);
  EXPECT_EQ(tokens[0], 'a' + 256 * 'b');
  EXPECT_EQ(tokens[3], 'c' + 256 * 'd');
}

TEST(Corpus, TokenFilesNamedSoAreForValidation) {
  const testing::TemporaryFolder folder;
  folder.put("train_1.bin", std::string(40, 't'));
  folder.put("train_2.bin", std::string(20, 't'));
  folder.put("val_1.bin", std::string(10, 'v'));
  const Source source{.where = folder.path().string(), .vocab = 65536, .batch = 1, .context = 4};
  const Split parts = read_split(source);
  EXPECT_EQ(parts.train.size(), 30);
  EXPECT_EQ(parts.validation.size(), 5);
  EXPECT_EQ(parts.validation[0], 'v' + 256 * 'v');
  Source greedy = source;
  greedy.context = 5;  // a batch of 6 ids does not fit the last one
  EXPECT_THROW(read_split(greedy), Error);
  std::filesystem::remove(folder / "val_1.bin");
  EXPECT_EQ(read_split(source).validation.size(), 5);  // a fraction of the others
}

TEST(Corpus, TextGoesThroughTheTokenizer) {
  const auto tokenizer = sentencepiece_of(small_model(), "small");
  const testing::TemporaryFolder folder;
  TextReader reader(folder.put("text.txt", small_training_text()).string());
  const Tokens tokens = tokenize(reader, *tokenizer);
  const auto ids = tokenizer->encode(small_training_text());
  ASSERT_EQ(tokens.size(), static_cast<int64_t>(ids.size()));
  for (int64_t i = 0; i < tokens.size(); ++i) ASSERT_EQ(tokens[i], ids[static_cast<size_t>(i)]);
}

TEST(Corpus, AMixtureIsSplitSourceBySource) {
  const testing::TemporaryFolder folder;
  const std::string a = folder.put("a.txt", std::string(100, 'a')).string();
  const std::string b = folder.put("b.txt", std::string(40, 'b')).string();
  const Split parts =
      read_split({.where = "3*" + a + ", 1*" + b, .batch = 1, .context = 4, .validation = 0.25});
  EXPECT_EQ(parts.train.size(), 75 + 30);
  EXPECT_EQ(parts.validation.size(), 25 + 10);
  ASSERT_EQ(parts.train.sources().size(), 2u);
  EXPECT_EQ(parts.train.sources()[1].begin, 75);
  EXPECT_EQ(parts.train.sources()[1].end, 105);
  EXPECT_EQ(parts.train.sources()[0].weight, 3);
  EXPECT_EQ(parts.train[75], 'b');
  EXPECT_EQ(parts.validation[25], 'b');
  EXPECT_EQ(read_tokens("3*" + a + ",1*" + b, 256).size(), 140);
}

// Large texts are mapped from a file beside the run, with the tokens that memory would hold.
TEST(Corpus, LargeTextsAreCached) {
  const testing::TemporaryFolder folder;
  const std::string text = folder.put("text.txt", small_training_text()).string();
  const auto tokenizer = sentencepiece_of(small_model(), "small");
  Source source{.where = text, .tokenizer = tokenizer.get(), .vocab = small_vocab, .context = 4};
  const Split expected = read_split(source);
  source.cache = folder / "cache";
  EXPECT_EQ(read_split(source).train.size(), expected.train.size());
  EXPECT_FALSE(std::filesystem::exists(source.cache));  // a small text
  source.cache_from = 1;
  for (int i = 0; i < 2; ++i) {
    const Split cached = read_split(source);
    ASSERT_EQ(cached.train.size(), expected.train.size());
    for (int64_t at = 0; at < cached.train.size(); ++at)
      ASSERT_EQ(cached.train[at], expected.train[at]);
  }
  EXPECT_TRUE(std::filesystem::exists(source.cache));
}

// One id per byte, from `first` on, with two more around a text.
class ShiftedBytes final : public Tokenizer {
 public:
  explicit ShiftedBytes(int32_t first) : first_(first) {}
  int64_t vocab() const override { return first_ + 258; }
  TemplateIds template_ids() const override { return {{first_ + 256}, {first_ + 257}}; }
  std::string decode(std::span<const int64_t>) const override { return ""; }
  std::string_view model() const override { return "shifted"; }

 protected:
  size_t part_end(std::string_view text, size_t) const override { return text.size(); }
  std::vector<int32_t> encode_part(std::string_view text, size_t begin, size_t end) const override {
    std::vector<int32_t> ids;
    for (const char c : text.substr(begin, end - begin)) ids.push_back(first_ + c);
    return ids;
  }

 private:
  int32_t first_;
};

TEST(Corpus, TokensKeepIdsPast16BitsAndThoseAroundTheText) {
  const testing::TemporaryFolder folder;
  const auto path = folder.put("ab.txt", "ab");
  for (const int32_t first : {0, 65536 - 258, 65536 - 257, 128000}) {
    TextReader reader(path.string());
    const Tokens tokens = tokenize(reader, ShiftedBytes(first));
    ASSERT_EQ(tokens.size(), 4);
    std::vector<int64_t> ids(4);
    tokens.read(0, ids);
    EXPECT_THAT(ids, ::testing::ElementsAre(first + 256, first + 'a', first + 'b', first + 257));
  }
}

}  // namespace
}  // namespace binade::data
