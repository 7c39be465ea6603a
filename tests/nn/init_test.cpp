#include "binade/nn/init.h"

#include <gtest/gtest.h>

#include "binade/ops/create.h"
#include "support/values.h"

namespace binade::nn {
namespace {

TEST(Init, UnsetDrawsNothing) {
  const Shape shape{37, 41};
  const Tensor drawn = init::normal(shape, 1, {});  // kept alive, so that its memory is not reused
  const init::SkipInit unset;
  EXPECT_FALSE(test::same_bits(init::normal(shape, 1, {}), drawn));
}

TEST(Init, UnsetEndsWithItsScope) {
  { const init::SkipInit unset; }
  EXPECT_EQ(init::constant({3}, 2, {}).data<float>()[1], 2);
}

}  // namespace
}  // namespace binade::nn
