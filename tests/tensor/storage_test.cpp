#include "binade/tensor/storage.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

namespace binade {
namespace {

TEST(Storage, IsAlignedMemoryOfItsSize) {
  for (const size_t bytes : {size_t{1}, size_t{63}, size_t{64}, size_t{1000}, size_t{100'000}}) {
    const Storage storage(bytes, Device::cpu(), memory::Category::activations);
    EXPECT_EQ(storage.bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(storage.data()) % 64, 0u);
    std::memset(storage.data(), 1, bytes);
  }
}

TEST(Storage, HasNoMemoryIfItIsEmpty) {
  EXPECT_EQ(Storage(0, Device::cpu(), memory::Category::activations).data(), nullptr);
  EXPECT_EQ(Storage(1 << 20, Device::meta(), memory::Category::activations).data(), nullptr);
}

TEST(Storage, IsCountedForItsLifetime) {
  const int64_t before = memory::allocated(memory::Category::optimizer);
  {
    const Storage storage(1000, Device::cpu(), memory::Category::optimizer);
    EXPECT_EQ(storage.category(), memory::Category::optimizer);
    EXPECT_EQ(memory::allocated(memory::Category::optimizer), before + 1000);
  }
  EXPECT_EQ(memory::allocated(memory::Category::optimizer), before);
}

TEST(Storage, GivesForeignMemoryBackOnce) {
  const int64_t before = memory::allocated();
  int released = 0;
  float values[4] = {};
  {
    const Storage storage(values, sizeof values, Device::cpu(), [&] { ++released; });
    EXPECT_TRUE(storage.is_foreign());
    EXPECT_EQ(static_cast<void*>(storage.data()), values);
    EXPECT_EQ(memory::allocated(), before);
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
  EXPECT_EQ(memory::allocated(), before);
}

TEST(Storage, CountsItsVersions) {
  Storage storage(8, Device::cpu(), memory::Category::activations);
  EXPECT_EQ(storage.version(), 0u);
  storage.bump_version();
  storage.bump_version();
  EXPECT_EQ(storage.version(), 2u);
}

}  // namespace
}  // namespace binade
