#include "binade/tensor/guarded_block.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

#include "binade/base/poison.h"
#include "binade/tensor/tensor.h"

namespace binade::memory {
namespace {

// Where the page after the block begins.
unsigned char* end_of(void* block, size_t bytes) {
  return static_cast<unsigned char*>(block) + (bytes + 63) / 64 * 64;
}

TEST(GuardedBlock, HoldsItsBytesFullOfPoison) {
  for (const size_t bytes : {size_t{1}, size_t{64}, size_t{100}, size_t{4096}, size_t{123457}}) {
    void* block = acquire_guarded(bytes);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 64, 0u);
    const auto* data = static_cast<unsigned char*>(block);
    for (size_t i = 0; i < bytes; ++i) ASSERT_EQ(data[i], poison_byte);
    std::memset(block, 0, bytes);
    release_guarded(block);
  }
  release_guarded(nullptr);
}

TEST(GuardedBlockDeathTest, EndsAtAPageThatCannotBeTouched) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  void* block = acquire_guarded(100);
  auto* volatile end = end_of(block, 100);
  EXPECT_DEATH(*end = 1, "");
  EXPECT_DEATH(std::printf("%d", *end), "");
  release_guarded(block);
}

TEST(GuardedBlockDeathTest, FindsWritesBesideIt) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        auto* block = static_cast<unsigned char*>(acquire_guarded(100));
        block[100] = 0;
        release_guarded(block);
      },
      "memory behind a block of 100 bytes was changed");
  EXPECT_DEATH(
      {
        auto* block = static_cast<unsigned char*>(acquire_guarded(100));
        block[-1] = 0;
        release_guarded(block);
      },
      "memory before a block of 100 bytes was changed");
}

// Fresh tensors, and those in memory that was used before.
TEST(PoisonedTensor, StartsAsNaN) {
  for (int round = 0; round < 3; ++round) {
    const Tensor x = Tensor::empty({50}, DType::f32);
    for (int i = 0; i < 50; ++i) {
      ASSERT_NE(x.data<float>()[i], x.data<float>()[i]);  // NaN alone differs from itself
      x.mutable_data<float>()[i] = 1;
    }
  }
}

}  // namespace
}  // namespace binade::memory
