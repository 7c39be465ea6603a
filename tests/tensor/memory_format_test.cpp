#include "binade/tensor/memory_format.h"

#include <gtest/gtest.h>

namespace binade {
namespace {

constexpr MemoryFormat rows = MemoryFormat::row_major, last = MemoryFormat::channels_last;

TEST(MemoryFormat, HasStrides) {
  EXPECT_EQ(strides_in(last, {2, 3, 4, 5}), (Strides{60, 1, 15, 3}));
  EXPECT_EQ(strides_in(last, {2, 3, 4, 5, 6}), (Strides{360, 1, 90, 18, 3}));
  EXPECT_EQ(strides_in(last, {2, 3, 4}), (Strides{12, 1, 3}));
  EXPECT_EQ(strides_in(rows, {2, 3, 4}), (Strides{12, 4, 1}));
  EXPECT_EQ(strides_in(last, {2, 3}), (Strides{3, 1})) << "no spatial axis";
}

TEST(MemoryFormat, IsReadOffTheStrides) {
  const Tensor x = empty({2, 3, 4, 5}, DType::f32, Device::cpu(), last);
  EXPECT_TRUE(is_channels_last(x));
  EXPECT_TRUE(is_in(last, x));
  EXPECT_FALSE(is_in(rows, x));
  EXPECT_TRUE(is_channels_last(TensorView(x)));
  EXPECT_FALSE(is_channels_last(Tensor::empty({2, 3, 4, 5}, DType::f32)));
  EXPECT_TRUE(is_channels_last(empty({2, 1, 4, 5}, DType::f32, Device::cpu(), last)));
  EXPECT_FALSE(is_channels_last(empty({0, 3, 4, 5}, DType::f32, Device::cpu(), last)));
  const Tensor part = x.strided({2, 2, 4, 5}, x.strides(), 0);
  EXPECT_FALSE(is_channels_last(part)) << "it has gaps";
}

}  // namespace
}  // namespace binade
