#include "binade/data/token_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "binade/base/error.h"
#include "io/temporary_folder.h"
#include "support/error_of.h"

namespace binade::data {
namespace {

using ::testing::HasSubstr;

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::string header(int32_t magic, int32_t version, int32_t count) {
  std::vector<int32_t> words(256, 0);
  words[0] = magic;
  words[1] = version;
  words[2] = count;
  return bytes_of(words);
}

TEST(TokenFile, ReadsShardsOfLlmC) {
  const testing::TemporaryFolder folder;
  const Tokens narrow = read_token_file(
      folder.put("a.bin", header(20240520, 1, 3) + bytes_of<uint16_t>({1, 50256, 7})), 50257);
  ASSERT_EQ(narrow.size(), 3);
  EXPECT_EQ(narrow[1], 50256);
  const Tokens wide = read_token_file(
      folder.put("b.bin", header(20240801, 7, 2) + bytes_of<uint32_t>({128000, 5})), 128256);
  ASSERT_EQ(wide.size(), 2);
  EXPECT_EQ(wide[0], 128000);
}

TEST(TokenFile, ReadsFilesOfNanoGpt) {
  const testing::TemporaryFolder folder;
  const Tokens tokens =
      read_token_file(folder.put("a.bin", bytes_of<uint16_t>({464, 65535, 0})), 65536);
  ASSERT_EQ(tokens.size(), 3);
  EXPECT_EQ(tokens[0], 464);
  EXPECT_EQ(tokens[1], 65535);
}

TEST(TokenFile, RecognizesWideIdsWithoutAHeader) {
  const testing::TemporaryFolder folder;
  std::vector<uint32_t> small, large;
  std::vector<uint16_t> narrow;
  for (uint32_t i = 0; i < 100; ++i) {
    small.push_back(i * 500);
    large.push_back(i * 1500);
    narrow.push_back(static_cast<uint16_t>(i % 2 == 0 ? i : i % 5));
  }
  const Tokens of_small = read_token_file(folder.put("a.bin", bytes_of(small)), 50257);
  ASSERT_EQ(of_small.size(), 100);
  EXPECT_EQ(of_small[99], 49500);
  const Tokens of_large = read_token_file(folder.put("b.bin", bytes_of(large)), 151936);
  ASSERT_EQ(of_large.size(), 100);
  EXPECT_EQ(of_large[99], 148500);
  EXPECT_EQ(read_token_file(folder.put("c.bin", bytes_of(narrow)), 50257).size(), 100);
  // Zeros are as good as any 16-bit ids.
  EXPECT_EQ(read_token_file(folder.put("z.bin", std::string(400, '\0')), 50257).size(), 200);
  // A file that ends where a page of memory does: nothing behind it may be read.
  std::vector<uint32_t> page;
  for (uint32_t i = 0; i < 1024; ++i) page.push_back(i * 40);
  EXPECT_EQ(read_token_file(folder.put("p.bin", bytes_of(page)), 50257).size(), 1024);
  // Ids that a file of 16 bits cannot have are past this vocabulary.
  EXPECT_THROW(read_token_file(folder.put("d.bin", bytes_of(large)), 50257), Error);
}

TEST(TokenFile, WhatIsWrittenIsReadAgain) {
  const testing::TemporaryFolder folder;
  std::vector<uint32_t> ids;
  for (uint32_t i = 0; i < 10000; ++i) ids.push_back(i * 6 % 60000);
  const Tokens tokens = Tokens::of_ids(bytes_of(ids), 4);
  const std::tuple<int64_t, TokenFormat, size_t> cases[] = {
      {60000, TokenFormat::llm_c, 1024 + 20000},
      {65537, TokenFormat::llm_c, 1024 + 40000},
      {65536, TokenFormat::nanogpt, 20000}};
  for (const auto& [vocab, format, size] : cases) {
    write_token_file(folder / "a.bin", tokens, vocab, format);
    EXPECT_EQ(std::filesystem::file_size(folder / "a.bin"), size);
    const Tokens again = read_token_file(folder / "a.bin", vocab);
    ASSERT_EQ(again.size(), 10000);
    for (int64_t i = 0; i < 10000; ++i) ASSERT_EQ(again[i], tokens[i]);
  }
  EXPECT_THROW(write_token_file(folder / "b.bin", tokens, 65537, TokenFormat::nanogpt), Error);
  EXPECT_FALSE(std::filesystem::exists(folder / "b.bin"));
}

TEST(TokenFile, RefusesShardsShorterThanABatch) {
  const testing::TemporaryFolder folder;
  const auto path = folder.put("a.bin", bytes_of<uint16_t>({1, 2, 3}));
  EXPECT_EQ(read_token_file(path, 10, 3).size(), 3);
  EXPECT_THAT(test::error_of([&] { read_token_file(path, 10, 4); }),
              HasSubstr("at least one batch of 4 ids, found 3"));
}

TEST(TokenFile, RefusesBadFiles) {
  const testing::TemporaryFolder folder;
  const std::string ids = bytes_of<uint16_t>({1, 2, 3});
  const std::pair<std::string, const char*> cases[] = {
      {"", "expected ids, found the end of the file"},
      {"abc", "a whole number of 16-bit ids"},
      {header(20240326, 1, 3) + ids, "another kind of llm.c file"},
      {header(20240520, 2, 3) + ids, "byte 4: expected version 1, found 2"},
      {header(20240801, 1, 3) + ids, "byte 4: expected version 7, found 1"},
      {header(20240520, 1, 4) + ids, "the number of ids in the file, 3, found 4"},
      {header(20240520, 1, 2) + ids, "the number of ids in the file, 3, found 2"},
      {header(20240520, 1, -1) + ids, "found -1"},
      {header(20240520, 1, 3) + ids + "x", "the number of ids"},
      {header(20240801, 7, 3) + ids, "the number of ids in the file, 1, found 3"},
      {header(20240520, 1, 0), "expected ids"},
      {header(20240520, 1, 3).substr(0, 500), "a header of 1024 bytes"},
      {header(20240520, 1, 3) + bytes_of<uint16_t>({1, 100, 3}),
       "byte 1026: expected an id below the vocabulary's 100, found 100"},
      {bytes_of<uint16_t>({1, 2, 300}),
       "byte 4: expected an id below the vocabulary's 100, found 300"},
  };
  for (const auto& [content, message] : cases) {
    const auto path = folder.put("bad.bin", content);
    try {
      read_token_file(path, 100);
      FAIL() << message;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(message));
      EXPECT_THAT(error.what(), HasSubstr("bad.bin"));
    }
  }
  EXPECT_THROW(read_token_file(folder / "none.bin", 100), Error);
}

}  // namespace
}  // namespace binade::data
