#include "binade/io/checksum.h"

#include <gtest/gtest.h>

#include "binade/base/json.h"

namespace binade::io {
namespace {

// Every flipped bit is told, unless it hits the name of the checksum itself, or white space that
// stays white space.
TEST(Checksum, TellsEveryFlippedBit) {
  const std::string objects[] = {"{\"step\":12,\"loss\":0.25}",
                                 "{\n  \"format\": \"x\",\n  \"values\": [\n    1\n  ]\n}"};
  for (const std::string& object : objects) {
    const std::string text = with_checksum(object);
    EXPECT_EQ(checksum_state(object), ChecksumState::none);
    EXPECT_EQ(checksum_state(text), ChecksumState::right);
    EXPECT_EQ(checksum_state(text + "\n"), ChecksumState::right);
    EXPECT_EQ(json::parse(text, {}).root().object().back().name, "checksum");
    const size_t body = text.rfind(",");
    for (size_t i = 0; i < text.size() * 8; ++i) {
      std::string flipped = text;
      flipped[i / 8] = static_cast<char>(flipped[i / 8] ^ (1 << i % 8));
      if (i / 8 < body) {
        EXPECT_EQ(checksum_state(flipped), ChecksumState::wrong) << i;
      } else {
        EXPECT_TRUE(checksum_state(flipped) != ChecksumState::right || flipped.back() != '}' ||
                    std::isspace(static_cast<unsigned char>(text[i / 8])) != 0)
            << i;
      }
    }
  }
}

TEST(Checksum, ShortTextsHaveNone) {
  for (const char* text : {"", "}", "{}", "\"}", ":\"0123456789abcdef\"}", "no JSON"})
    EXPECT_EQ(checksum_state(text), ChecksumState::none) << text;
}

}  // namespace
}  // namespace binade::io
