#include "binade/data/unpack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/base/error.h"
#include "data/packed.h"
#include "io/temporary_folder.h"
#include "support/error_of.h"

namespace binade::data {
namespace {

using ::testing::HasSubstr;

std::string unpacked(const std::filesystem::path& path, size_t block) {
  const auto file = open_unpacked(path);
  std::string text, buffer(block, '\0');
  while (const size_t count = file->read(buffer.data(), block)) text.append(buffer, 0, count);
  EXPECT_EQ(file->consumed(), file->size());
  EXPECT_EQ(file->read(buffer.data(), block), 0u);
  return text;
}

std::string varied_text() {
  std::string text;
  for (int i = 0; i < 60'000; ++i) text += std::to_string(i * 7919 % 10007) + (i % 9 ? " " : "\n");
  return text;
}

// zlib's and libzstd's own writers are the oracle.
TEST(Unpack, GivesBackTheTextInBlocksOfAnySize) {
  const testing::TemporaryFolder folder;
  const std::string text = varied_text();
  const std::filesystem::path files[] = {
      folder.put("a.txt", text), folder.put("a.txt.gz", gzipped(text)),
      folder.put("a.txt.zst", zstandard(text)),
      folder.put("b.gz", gzipped(text.substr(0, 1000)) + gzipped(text.substr(1000))),
      folder.put("b.zst", zstandard(text.substr(0, 1000)) + zstandard(text.substr(1000)))};
  for (const auto& path : files) {
    for (const size_t block : {size_t{7919}, size_t{1} << 20})
      EXPECT_TRUE(unpacked(path, block) == text) << path << " " << block;
    EXPECT_EQ(is_packed(path), path.extension() != ".txt");
  }
  for (const auto& [name, packed] : {std::pair<const char*, std::string>{"c.txt", "abc"},
                                     {"c.gz", gzipped("abc")},
                                     {"c.zst", zstandard("abc")}}) {
    for (const size_t block : {1, 2, 3})
      EXPECT_EQ(unpacked(folder.put(name, packed), block), "abc") << name << " " << block;
  }
  EXPECT_EQ(unpacked(folder.put("empty.gz", gzipped("")), 10), "");
  EXPECT_EQ(unpacked(folder.put("empty.zst", zstandard("")), 10), "");
}

TEST(Unpack, RefusesDamagedAndTruncatedFiles) {
  const testing::TemporaryFolder folder;
  const std::string text = varied_text();
  for (const auto& [name, packed] :
       {std::pair<std::string, std::string>{"a.gz", gzipped(text)}, {"a.zst", zstandard(text)}}) {
    for (const size_t length : {size_t{0}, size_t{3}, packed.size() / 2, packed.size() - 1}) {
      const auto path = folder.put(name, packed.substr(0, length));
      EXPECT_THAT(test::error_of([&] { unpacked(path, 4096); }), HasSubstr("a truncated file"))
          << name << " " << length;
    }
    std::string damaged = packed;
    damaged[0] = 'x';
    const auto path = folder.put(name, damaged);
    EXPECT_THAT(test::error_of([&] { unpacked(path, 4096); }), HasSubstr(path.filename().string()));
  }
}

// 100 MB of zeros in 100 kB of gzip and 10 kB of Zstandard.
TEST(Unpack, RefusesFilesMadeToFillADisk) {
  const testing::TemporaryFolder folder;
  const std::string zeros(100 << 20, 'a');
  for (const auto& path :
       {folder.put("a.gz", gzipped(zeros)), folder.put("a.zst", zstandard(zeros))}) {
    EXPECT_THAT(test::error_of([&] { unpacked(path, 1 << 20); }),
                HasSubstr("at most 200 times its size"));
  }
}

}  // namespace
}  // namespace binade::data
