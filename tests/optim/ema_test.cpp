#include "binade/optim/ema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/autograd/grad_mode.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/optim/sgd.h"
#include "support/error_of.h"

namespace binade::optim {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

void set(const Tensor& parameter, double value) {
  const NoGrad no_grad;
  fill_(parameter, value);
}

TEST(Ema, StartsAsTheParameters) {
  const Tensor w = full({3}, 2).set_requires_grad();
  EMA ema({w}, 0.75);
  set(w, 4);
  ema.update();
  EXPECT_THAT(to_vector(ema.of(w)), Each(4.0));
  set(w, 8);
  ema.update();
  EXPECT_THAT(to_vector(ema.of(w)), Each(5.0));  // 0.75 * 4 + 0.25 * 8
  EXPECT_EQ(ema.updates(), 2);
}

// 16-bit parameters lose updates that their master weights keep.
TEST(Ema, FollowsMasterWeights) {
  const Tensor w = ones({8}, DType::bf16).set_requires_grad();
  SGD sgd({w}, {.lr = 0x1p-12});
  EMA ema({w}, 0.5);
  ema.update(sgd);
  w.set_grad(ones({8}));
  sgd.step();
  ema.update(sgd);
  EXPECT_EQ(ema.of(w).dtype(), DType::f32);
  EXPECT_THAT(to_vector(ema.of(w)), Each(1 - 0x1p-13));
  EXPECT_THAT(to_vector(w), Each(1.0));
}

TEST(Ema, IsAppliedForALifetime) {
  const Tensor w = full({4}, 1, DType::bf16).set_requires_grad();
  SGD sgd({w}, {.lr = 0x1p-12});
  w.set_grad(ones({4}));
  sgd.step();
  EMA ema({w}, 0.5);
  ema.update();
  set(w, 3);
  ema.update();
  {
    const EMA::Applied averages(ema);
    EXPECT_THAT(to_vector(w), Each(2.0));
  }
  EXPECT_THAT(to_vector(w), Each(3.0));
}

// Evaluating with averages between steps changes nothing of the training.
TEST(Ema, LeavesMasterWeightsAsTheyWere) {
  const Tensor w = ones({4}, DType::bf16).set_requires_grad();
  SGD sgd({w}, {.lr = 0x1p-12});
  EMA ema({w}, 0.5);
  w.set_grad(ones({4}));
  sgd.step();
  { const EMA::Applied averages(ema); }
  EXPECT_THAT(to_vector(sgd.master_of(w)), Each(1 - 0x1p-12));
}

TEST(Ema, ContinuesFromItsState) {
  const Tensor w = randn({50}, {1, 1}).set_requires_grad();
  EMA whole({w}, 0.9), half({w}, 0.9), resumed({w}, 0.9);
  const auto step = [&](uint64_t i) {
    const NoGrad no_grad;
    copy_(w, randn({50}, {2, i}));
  };
  for (uint64_t i = 0; i < 6; ++i) {
    step(i);
    whole.update();
    if (i < 3) half.update();
    if (i == 3) resumed.load_state_dict(half.state_dict());
    if (i >= 3) resumed.update();
  }
  EXPECT_EQ(to_vector(resumed.of(w)), to_vector(whole.of(w)));
  EXPECT_EQ(resumed.updates(), 6);
}

TEST(Ema, RefusesBadInput) {
  const Tensor w = ones({4}).set_requires_grad(), other = ones({5}).set_requires_grad();
  EXPECT_THAT(test::error_of([&] { EMA({w}, 1); }), HasSubstr("decay"));
  EXPECT_THROW(EMA({w}, -0.1), Error);
  EMA a({w}), b({other}), c({w, other});
  EXPECT_THAT(test::error_of([&] { a.load_state_dict(b.state_dict()); }),
              HasSubstr("another model"));
  EXPECT_THROW(a.load_state_dict(c.state_dict()), Error);
  EXPECT_THROW(a.load_state_dict({}), Error);
  EXPECT_THROW(static_cast<void>(a.of(other)), Error);
}

}  // namespace
}  // namespace binade::optim
