#include "binade/nn/init.h"

#include <gtest/gtest.h>

#include "binade/ops/create.h"

namespace binade::nn {
namespace {

TEST(Init, UnsetLeavesTheMemoryAsItIs) {
  const Shape shape{37, 41};
  memory::release_cached();  // no other block of that size: the freed one comes back
  Tensor before = full(shape, 7);
  const void* block = before.raw_data();
  before = {};
  const init::Unset unset;
  const Tensor weight = init::normal(shape, 1, {});
  ASSERT_EQ(weight.raw_data(), block);
  EXPECT_EQ(weight.data<float>()[5], 7);
}

TEST(Init, UnsetEndsWithItsScope) {
  { const init::Unset unset; }
  EXPECT_EQ(init::constant({3}, 2, {}).data<float>()[1], 2);
}

}  // namespace
}  // namespace binade::nn
