#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "binade/autograd/grad_mode.h"
#include "binade/backend/update_rules.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/optim/adam.h"
#include "binade/optim/sgd.h"
#include "support/error_of.h"

// What an optimizer keeps between steps, and what loading it brings back.
namespace binade::optim {
namespace {

using ::testing::HasSubstr;

Tensor random_leaf(DType dtype, uint64_t stream) {
  return cast(randn({257}, {9, stream}), dtype).set_requires_grad();
}

TEST(LoadedState, MakesSixteenBitWeightsFromItsMasters) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Tensor trained = random_leaf(dtype, 1), other = random_leaf(dtype, 2);
    AdamW first({trained}, {.lr = 1e-2}), second({other}, {.lr = 1e-2});
    for (uint64_t step = 0; step < 3; ++step) {
      trained.set_grad(randn({257}, {3, step}));
      first.step();
    }
    ASSERT_NE(to_vector(other), to_vector(trained));
    const uint64_t version = other.version();
    second.load_state_dict(first.state_dict());
    EXPECT_EQ(to_vector(second.master_of(other)), to_vector(first.master_of(trained)));
    EXPECT_EQ(to_vector(other), to_vector(trained));
    EXPECT_EQ(to_vector(other), to_vector(cast(second.master_of(other), dtype)));
    EXPECT_GT(other.version(), version);  // casts and FP8 codes of it are made again
    EXPECT_EQ(second.steps(), 3);
  }
}

// The state is the first optimizer's own until it is copied; loading must not share it.
TEST(LoadedState, IsACopy) {
  const Tensor a = random_leaf(DType::bf16, 1), b = random_leaf(DType::bf16, 2);
  AdamW first({a}), second({b});
  a.set_grad(randn({257}, {3, 0}));
  first.step();
  second.load_state_dict(first.state_dict());
  const auto kept = to_vector(second.master_of(b));
  a.set_grad(randn({257}, {3, 1}));
  first.step();
  EXPECT_EQ(to_vector(second.master_of(b)), kept);
}

// Weights and gradients as they were, step after step: only the draws differ. Each rounds down with
// probability p, so that two steps that draw apart differ in 2 p (1 - p) of the elements.
template <class O, class Options>
void expect_draws_of_their_own(Options options, double p) {
  constexpr int64_t count = 1 << 16;
  const Tensor weight = ones({count}, DType::bf16).set_requires_grad();
  options.master = {.masters = false, .stochastic_rounding = true, .seed = 5};
  O optimizer({weight}, options);
  std::vector<std::vector<double>> results;
  for (int step = 0; step < 3; ++step) {
    {
      const NoGrad no_grad;
      fill_(weight, 1);
    }
    weight.set_grad(ones({count}));
    optimizer.step();
    results.push_back(to_vector(weight));
  }
  const double expected = 2 * p * (1 - p);
  const double deviation = std::sqrt(expected * (1 - expected) / count);
  for (size_t a = 0; a < results.size(); ++a) {
    for (size_t b = a + 1; b < results.size(); ++b) {
      int64_t different = 0;
      for (size_t i = 0; i < results[a].size(); ++i) different += results[a][i] != results[b][i];
      EXPECT_NEAR(static_cast<double>(different) / count, expected, 5 * deviation)
          << "steps " << a << " and " << b;
    }
  }
}

TEST(StochasticRounding, DrawsAnewAtEveryStep) {
  // A quarter of the step of bf16 below 1, which is 2^-8.
  expect_draws_of_their_own<SGD>(SgdOptions{.lr = 0x1p-10}, 0.25);
  expect_draws_of_their_own<Adam>(AdamOptions{.lr = 0x1p-10, .eps = 0}, 0.25);
}

// --- the learning rate by applied steps ---

TEST(LearningRate, IsThatOfTheUpdatesApplied) {
  const Tensor w = zeros({1}).set_requires_grad();
  SGD sgd({w}, {.lr = 1});
  const double rates[] = {4, 3, 2};
  const auto step = [&](bool skipped) {
    w.set_grad(ones({1}));
    sgd.step({.gradient_factor = {}, .skip = full({1}, skipped ? 1 : 0)});
  };
  // Two steps were started, of which the caller does not know whether they were applied.
  step(true);
  step(false);
  sgd.set_lr_after(2, rates);
  EXPECT_EQ(sgd.lr(), 3);  // one was
  step(true);
  sgd.set_lr_after(3, rates);
  EXPECT_EQ(sgd.lr(), 2);
  sgd.set_lr_after(1, {rates, 1});
  EXPECT_EQ(sgd.lr(), 4);
  EXPECT_THAT(test::error_of([&] { sgd.set_lr_after(1, {}); }), HasSubstr("rates"));
  const std::vector<double> many(5, 1.0);
  EXPECT_THAT(test::error_of([&] { sgd.set_lr_after(1, many); }), HasSubstr("1 to 4"));
}

// What a GPU's kernels choose by.
TEST(LearningRate, OfADeviceFollowsItsOwnCountOfSkips) {
  const backend::RatesAfterSkips after{.lr = {3, 2, 1}, .known = 5};
  EXPECT_EQ(backend::learning_rate(4, after, 0), 4);
  EXPECT_EQ(backend::learning_rate(4, after, 5), 4);
  EXPECT_EQ(backend::learning_rate(4, after, 6), 3);
  EXPECT_EQ(backend::learning_rate(4, after, 7), 2);
  EXPECT_EQ(backend::learning_rate(4, after, 8), 1);
  EXPECT_EQ(backend::learning_rate(4, after, 9), 1);
}

}  // namespace
}  // namespace binade::optim
