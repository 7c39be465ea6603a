#include <gtest/gtest.h>

#include "binade/amp/autocast.h"
#include "binade/binade.h"

// The copies of weights that autocast keeps while a guard is alive.
namespace binade {
namespace {

TEST(AutocastCache, OutlivesInnerGuards) {
  Tensor w = ones({4, 4});
  w.set_requires_grad();
  const Tensor x = ones({2, 4});
  {
    const amp::Autocast outer(DType::bf16);
    linear(x, w);
    EXPECT_EQ(amp::cast_cache_bytes(), 32);
    { const amp::Autocast off(DType::bf16, {.enabled = false}); }
    EXPECT_EQ(amp::cast_cache_bytes(), 32);
    {
      const amp::Autocast inner(DType::f16);
      linear(x, w);
      EXPECT_EQ(amp::cast_cache_bytes(), 64);  // one copy for each type
      const amp::Autocast again(DType::bf16);
      linear(x, w);
      EXPECT_EQ(amp::cast_cache_bytes(), 64);
    }
    EXPECT_EQ(amp::cast_cache_bytes(), 64);
    linear(x, w);
    EXPECT_EQ(amp::cast_cache_bytes(), 64);
  }
  EXPECT_EQ(amp::cast_cache_bytes(), 0);
}

TEST(AutocastCache, SeesWritesThroughTheAddress) {
  Tensor w = ones({4, 4});
  w.set_requires_grad();
  const Tensor x = ones({1, 4});
  const amp::Autocast guard(DType::bf16);
  EXPECT_EQ(to_vector(linear(x, w))[0], 4);
  w.mutable_data<float>()[0] = 3;
  EXPECT_EQ(to_vector(linear(x, w))[0], 6);
}

// Casts of one guard, as `explain` counts them: the second use of a weight has none.
TEST(AutocastCache, SparesTheSecondCastAfterAnInnerGuard) {
  Tensor w = ones({4, 4});
  w.set_requires_grad();
  const Tensor x = ones({2, 4}, DType::bf16);
  const auto trace = amp::explain([&] {
    const amp::Autocast outer(DType::bf16);
    linear(x, w);
    { const amp::Autocast inner(DType::bf16); }
    linear(x, w);
  });
  ASSERT_EQ(trace.size(), 2u);
  EXPECT_EQ(trace[0].casts.size(), 1u);
  EXPECT_EQ(trace[1].casts.size(), 0u);
}

}  // namespace
}  // namespace binade
