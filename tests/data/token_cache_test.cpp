#include "binade/data/token_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "binade/base/error.h"
#include "binade/data/text_reader.h"
#include "data/packed.h"
#include "data/small_model.h"
#include "io/temporary_folder.h"

namespace binade::data {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  return files;
}

class TokenCacheTest : public ::testing::Test {
 protected:
  // The number of times that the text was encoded.
  int encodings(const fs::path& where) {
    int calls = 0;
    const Tokens tokens =
        cached_tokens(where.string(), *tokenizer_, {cache_}, [&](size_t, size_t) { ++calls; });
    const auto ids = tokenizer_->encode(text_);
    EXPECT_EQ(tokens.size(), static_cast<int64_t>(ids.size()));
    for (int64_t i = 0; i < tokens.size(); ++i)
      EXPECT_EQ(tokens[i], ids[static_cast<size_t>(i)]) << i;
    return calls;
  }

  testing::TemporaryFolder folder_;
  fs::path cache_ = folder_ / "cache";
  std::string text_ = small_training_text();
  std::unique_ptr<const Tokenizer> tokenizer_ = sentencepiece_of(small_model(), "small");
};

TEST_F(TokenCacheTest, EncodesATextOnce) {
  const fs::path path = folder_.put("a.txt", text_);
  EXPECT_EQ(encodings(path), 1);
  EXPECT_EQ(encodings(path), 0);
  EXPECT_EQ(encodings(folder_.put("b.txt", text_)), 0);  // the same text by another name
  EXPECT_EQ(files_in(cache_).size(), 1u);
}

TEST_F(TokenCacheTest, AnotherTextOrTokenizerHasAnotherFile) {
  const fs::path path = folder_.put("a.txt", text_);
  encodings(path);
  text_ += "more";
  EXPECT_EQ(encodings(folder_.put("a.txt", text_)), 1);
  EXPECT_EQ(encodings(folder_.put("a.gz", gzipped(text_))), 1);
  tokenizer_ = open_tokenizer("bytes");
  EXPECT_EQ(encodings(path), 1);
  EXPECT_EQ(files_in(cache_).size(), 4u);
}

// Bytes shifted by a number, with a file of one byte; the last of its ids stands for 'e'.
class Shifted : public Tokenizer {
 public:
  explicit Shifted(char shift, int64_t vocab = 300) : model_(1, shift), vocab_(vocab) {}
  int64_t vocab() const override { return vocab_; }
  std::string decode(std::span<const int64_t>) const override { return {}; }
  std::string_view model() const override { return model_; }

 private:
  size_t part_end(std::string_view text, size_t) const override { return text.size(); }
  std::vector<int32_t> encode_part(std::string_view text, size_t begin, size_t end) const override {
    std::vector<int32_t> ids;
    for (const char byte : text.substr(begin, end - begin))
      ids.push_back(byte == 'e' ? static_cast<int32_t>(vocab_ - 1) : byte + model_[0]);
    return ids;
  }
  std::string model_;
  int64_t vocab_;
};

TEST_F(TokenCacheTest, TokenizersAreToldApartByMoreThanTheirSize) {
  const fs::path path = folder_.put("a.txt", text_);
  tokenizer_ = std::make_unique<Shifted>('\1');
  EXPECT_EQ(encodings(path), 1);
  tokenizer_ = std::make_unique<Shifted>('\2');
  EXPECT_EQ(encodings(path), 1);
  EXPECT_EQ(encodings(path), 0);
  // So are texts.
  text_.back() = text_.back() == 'x' ? 'y' : 'x';
  EXPECT_EQ(encodings(folder_.put("a.txt", text_)), 1);
}

// Two bytes up to an id of 65535, then four.
TEST_F(TokenCacheTest, IdsOfAnyWidthAreReadAgain) {
  const fs::path path = folder_.put("a.txt", text_);
  const std::pair<int64_t, size_t> widths[] = {{65536, 2}, {65537, 4}, {1 << 20, 4}};
  for (const auto& [vocab, width] : widths) {
    tokenizer_ = std::make_unique<Shifted>('\1', vocab);
    fs::remove_all(cache_);
    EXPECT_EQ(encodings(path), 1) << vocab;
    EXPECT_EQ(encodings(path), 0) << vocab;
    EXPECT_EQ(fs::file_size(files_in(cache_).at(0)) / text_.size(), width) << vocab;
  }
}

TEST_F(TokenCacheTest, ADamagedFileIsWrittenAgain) {
  const fs::path path = folder_.put("a.txt", text_);
  encodings(path);
  const fs::path file = files_in(cache_).at(0);
  const auto size = static_cast<int64_t>(fs::file_size(file));
  for (const int64_t at : {int64_t{0}, size / 2, size - 57, size - 41, size - 33, size - 1}) {
    std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(at).put('\x77');
    EXPECT_EQ(encodings(path), 1) << at;
  }
  for (const int64_t length : {int64_t{0}, int64_t{20}, size - 1}) {
    fs::resize_file(file, static_cast<uintmax_t>(length));
    EXPECT_EQ(encodings(path), 1) << length;
  }
  EXPECT_EQ(encodings(path), 0);
  EXPECT_EQ(files_in(cache_).size(), 1u);
}

// As the ranks of a run do.
TEST_F(TokenCacheTest, SeveralReadersEncodeATextOnce) {
  const fs::path path = folder_.put("a.txt", text_);
  std::atomic<int> calls = 0;
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i)
    readers.emplace_back([&] {
      const Tokens tokens =
          cached_tokens(path.string(), *tokenizer_, {cache_}, [&](size_t, size_t) { ++calls; });
      EXPECT_EQ(tokens.size(), static_cast<int64_t>(tokenizer_->encode(text_).size()));
    });
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(files_in(cache_).size(), 1u);
}

TEST_F(TokenCacheTest, AFolderThatCannotBeIsNamed) {
  folder_.put("cache", "a file");
  EXPECT_THROW(encodings(folder_.put("a.txt", text_)), Error);
}

}  // namespace
}  // namespace binade::data
