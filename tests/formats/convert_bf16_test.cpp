#include "binade/formats/convert_bf16.h"

#include <gtest/gtest.h>

#include <vector>

namespace binade::formats {
namespace {

// Every upper half with low halves around the tie: each rounding, every NaN, every subnormal.
TEST(ConvertBf16, TheCpusOwnInstructionRoundsAsTheFormatSays) {
  const NarrowBf16 narrow = native_narrow_bf16();
  if (narrow == nullptr) GTEST_SKIP() << "this CPU has none";
  for (const uint32_t low : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
    std::vector<float> values;
    for (uint32_t high = 0; high < 0x10000; ++high)
      values.push_back(float_from_bits(high << 16 | low));
    values.resize(values.size() - 3);  // not a whole number of vectors
    std::vector<bf16> found(values.size());
    narrow(values.data(), found.data(), values.size());
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(found[i].bits, bf16(values[i]).bits) << std::hex << float_bits(values[i]);
  }
}

}  // namespace
}  // namespace binade::formats
