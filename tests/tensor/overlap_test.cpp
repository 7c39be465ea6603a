#include "binade/tensor/overlap.h"

#include <gtest/gtest.h>

namespace binade {
namespace {

Tensor memory(int64_t elements = 100) { return Tensor::empty({elements}, DType::f32); }

TEST(Overlap, OfAViewWithItselfIsExact) {
  const Tensor m = memory();
  EXPECT_FALSE(overlaps_itself(m));
  EXPECT_TRUE(overlaps_itself(m.strided({2}, {0}, 0)));
  EXPECT_FALSE(overlaps_itself(m.strided({1}, {0}, 0)));
  EXPECT_FALSE(overlaps_itself(m.strided({0, 3}, {0, 0}, 0)));
  EXPECT_FALSE(overlaps_itself(m.strided({3, 4}, {1, 3}, 0)));
  EXPECT_FALSE(overlaps_itself(m.strided({3, 4}, {-8, 2}, 50)));
  EXPECT_TRUE(overlaps_itself(m.strided({3, 2}, {1, 1}, 0)));
  EXPECT_FALSE(overlaps_itself(m.strided({3, 2}, {2, 3}, 0))) << "0 2 4 and 3 5 7";
  EXPECT_TRUE(overlaps_itself(m.strided({4, 2}, {2, 6}, 0))) << "0 2 4 6 and 6 8 10 12";
}

TEST(Overlap, OfAWriteWithItsSource) {
  const Tensor m = memory();
  const Tensor x = m.strided({10}, {1}, 10);
  EXPECT_FALSE(write_changes(x, x.detach())) << "each element is read where it is written";
  EXPECT_TRUE(write_changes(x, m.strided({10}, {1}, 11)));
  EXPECT_TRUE(write_changes(x, m.strided({2}, {1}, 19)));
  EXPECT_FALSE(write_changes(x, m.strided({2}, {1}, 20)));
  EXPECT_TRUE(write_changes(x, m.strided({2}, {-1}, 11)));
  EXPECT_FALSE(write_changes(x, m.strided({2}, {1}, 8)));
  EXPECT_TRUE(write_changes(x, m.strided({}, {}, 12)));
  EXPECT_FALSE(write_changes(x, memory()));
  EXPECT_FALSE(write_changes(x, m.strided({0}, {1}, 12)));
  EXPECT_FALSE(write_changes(m.strided({10}, {2}, 0), m.strided({10}, {2}, 1)));
  EXPECT_TRUE(write_changes(m.strided({10}, {2}, 0), m.strided({10}, {2}, 2)));
  EXPECT_TRUE(write_changes(m.strided({3, 3}, {3, 1}, 0), m.strided({3, 3}, {1, 3}, 0)));
}

TEST(Overlap, IsFoundInMemoryOfOtherLibraries) {
  float values[4] = {};
  const auto wrapped = [&](int64_t first) {
    const auto storage =
        std::make_shared<Storage>(values + first, sizeof(float) * 3, Device::cpu(), [] {});
    return Tensor::of_storage(storage, {3}, {1}, DType::f32);
  };
  EXPECT_TRUE(write_changes(wrapped(0), wrapped(1)));
  EXPECT_FALSE(write_changes(wrapped(0), wrapped(0)));
}

}  // namespace
}  // namespace binade
