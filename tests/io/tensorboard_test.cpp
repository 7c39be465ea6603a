#include "binade/io/tensorboard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "binade/base/error.h"
#include "io/temporary_folder.h"

namespace binade::io {
namespace {

namespace fs = std::filesystem;
using ::testing::SizeIs;

std::string hex(const std::string& bytes) {
  constexpr const char* digits = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += {digits[byte >> 4], digits[byte & 15]};
  }
  return text;
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

// Bytes that TensorBoard 2.21's RecordWriter writes for the same events.
TEST(Tensorboard, RecordsAreTheBytesOfTensorBoardsOwnWriter) {
  EXPECT_EQ(hex(version_record(1700000000.5)),
            "1800000000000000a37f4b220900002040fc54d9411a0d627261696e2e4576656e743a322b353110");
  EXPECT_EQ(hex(restart_record(1700000001.25, 300)),
            "100000000000000095fbfe180900005040fc54d94110ac023a0208010333a047");
  const Scalar scalars[] = {{"loss/train", 2.5}, {"lr", 1e-3}};
  EXPECT_EQ(hex(scalars_record(1700000002.0, 301, scalars)),
            "2c00000000000000f4aecc450900008040fc54d94110ad022a1e0a110a0a6c6f73732f747261696e15000"
            "020400a090a026c72156f12833ae5834f9d");
}

TEST(Tensorboard, EachOpeningIsALaterFile) {
  const testing::TemporaryFolder folder;
  const Scalar scalar[] = {{"loss/train", 1}};
  EventWriter(folder / "tb", 0).add(1, scalar);
  const auto first = files_in(folder / "tb");
  ASSERT_THAT(first, SizeIs(1));
  const std::string before = testing::content_of(first[0]);
  EventWriter(folder / "tb", 7).add(8, scalar);
  const auto both = files_in(folder / "tb");
  ASSERT_THAT(both, SizeIs(2));
  EXPECT_EQ(both[0], first[0]);
  EXPECT_EQ(testing::content_of(first[0]), before);
  // The second file restarts after step 7.
  const std::string after = testing::content_of(both[1]);
  EXPECT_EQ(after.size(), before.size() + restart_record(0, 8).size());
  // Its second record, with the time that stands in it.
  const size_t begin = version_record(0).size();
  double time = 0;
  std::memcpy(&time, after.data() + begin + 13, sizeof time);
  const std::string expected = restart_record(time, 8);
  EXPECT_EQ(hex(after.substr(begin, expected.size())), hex(expected));
}

TEST(Tensorboard, RefusesAFolderThatIsAFile) {
  const testing::TemporaryFolder folder;
  folder.put("tb", "");
  EXPECT_THROW(EventWriter(folder / "tb", 0), Error);
}

}  // namespace
}  // namespace binade::io
