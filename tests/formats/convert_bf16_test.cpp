#include "binade/formats/convert_bf16.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <vector>

namespace binade::formats {
namespace {

// Every sign and exponent with mantissas around each kind of rounding: exact, below, at and above
// half, ties to either side, carries into the exponent; infinities and quiet and signalling NaNs.
std::vector<float> inputs() {
  constexpr uint32_t mantissas[] = {0,        1,        0x7fff,   0x8000,   0x8001,
                                    0x10000,  0x17fff,  0x18000,  0x18001,  0x400000,
                                    0x400001, 0x7f7fff, 0x7f8000, 0x7fffff, 0x2aaaaa};
  std::vector<float> values;
  for (uint32_t top = 0; top < 512; ++top) {
    for (const uint32_t mantissa : mantissas)
      values.push_back(std::bit_cast<float>(top << 23 | mantissa));
  }
  return values;
}

TEST(ConvertBf16, TheInstructionGivesTheBitsOfTheScalarConversion) {
  const NarrowBf16 narrow = native_narrow_bf16();
  if (narrow == nullptr) GTEST_SKIP() << "this CPU has no such instruction";
  const std::vector<float> in = inputs();
  std::vector<bf16> out(in.size());
  narrow(in.data(), out.data(), in.size());
  for (size_t i = 0; i < in.size(); ++i)
    ASSERT_EQ(out[i].bits, bf16(in[i]).bits) << std::hex << std::bit_cast<uint32_t>(in[i]);
}

TEST(ConvertBf16, AnyLengthWritesItsElementsAndNoMore) {
  const NarrowBf16 narrow = native_narrow_bf16();
  if (narrow == nullptr) GTEST_SKIP() << "this CPU has no such instruction";
  for (size_t n = 0; n < 20; ++n) {
    std::vector<float> in(n + 1, 1.5f);
    std::vector<bf16> out(n + 2, bf16(7.0f));
    narrow(in.data() + 1, out.data() + 1, n);
    for (size_t i = 0; i < out.size(); ++i)
      EXPECT_EQ(static_cast<float>(out[i]), i >= 1 && i <= n ? 1.5f : 7.0f) << n << " " << i;
  }
}

}  // namespace
}  // namespace binade::formats
