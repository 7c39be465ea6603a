#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <map>

#include "binade/autograd/grad_mode.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/shape.h"
#include "support/tensors.h"

// Expressions as they are written with LibTorch.
namespace binade {
namespace {

using test::leaf;
using test::read;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Scalars, StandOnEitherSide) {
  const Tensor x = leaf({1, 2, 4}, {3});
  EXPECT_THAT(read(x + 1), ElementsAre(2, 3, 5));
  EXPECT_THAT(read(1 + x), ElementsAre(2, 3, 5));
  EXPECT_THAT(read(x - 1), ElementsAre(0, 1, 3));
  EXPECT_THAT(read(1 - x), ElementsAre(0, -1, -3));
  EXPECT_THAT(read(2.5 * x), ElementsAre(2.5, 5, 10));
  EXPECT_THAT(read(x / 2), ElementsAre(0.5, 1, 2));
  EXPECT_THAT(read(2 / x), ElementsAre(2, 1, 0.5));
  sum((3 - x) * 2 + 8 / x).backward();
  EXPECT_THAT(read(x.grad()), ElementsAre(-2 - 8, -2 - 2, -2 - 0.5));
}

TEST(Scalars, FollowPyTorchsTypes) {
  const Tensor whole = tensor({1, 2}), half = ones({2}, DType::f16);
  EXPECT_EQ((whole + 1).dtype(), DType::i64);
  EXPECT_EQ((1 - whole).dtype(), DType::i64);
  EXPECT_EQ((whole * 1.5).dtype(), DType::f32);
  EXPECT_THAT(read(whole * 1.5), ElementsAre(1.5, 3));
  EXPECT_EQ((whole / 2).dtype(), DType::f32);
  EXPECT_EQ((half * 1.5).dtype(), DType::f16);
  EXPECT_EQ((1 / half).dtype(), DType::f16);
  const int64_t big = (int64_t{1} << 53) + 1;
  EXPECT_EQ((tensor({big}) + 1).data<int64_t>()[0], big + 1);
}

TEST(Comparisons, TakeNumbersAndTensors) {
  const Tensor x = tensor({1.0, 2.0, 3.0});
  EXPECT_THAT(read(x > 2), ElementsAre(0, 0, 1));
  EXPECT_THAT(read(x >= 2), ElementsAre(0, 1, 1));
  EXPECT_THAT(read(x < 2), ElementsAre(1, 0, 0));
  EXPECT_THAT(read(x <= 2.5), ElementsAre(1, 1, 0));
  EXPECT_THAT(read(x == 2), ElementsAre(0, 1, 0));
  EXPECT_THAT(read(x != 2), ElementsAre(1, 0, 1));
  EXPECT_THAT(read(2 > x), ElementsAre(1, 0, 0));
  EXPECT_THAT(read(2 >= x), ElementsAre(1, 1, 0));
  EXPECT_THAT(read(2 < x), ElementsAre(0, 0, 1));
  EXPECT_THAT(read(2 <= x), ElementsAre(0, 1, 1));
  EXPECT_THAT(read(2 == x), ElementsAre(0, 1, 0));
  EXPECT_THAT(read(2 != x), ElementsAre(1, 0, 1));
  EXPECT_THAT(read(x == x), ElementsAre(1, 1, 1));
  EXPECT_THAT(read(x < tensor(2.0)), ElementsAre(1, 0, 0));
  EXPECT_THAT(read(tensor({1, 2, 3}) > 1.5), ElementsAre(0, 1, 1));
  static_assert(!std::constructible_from<bool, Tensor>, "if (a == b) would be a trap");
}

TEST(Comparisons, EqualAsksForAll) {
  const Tensor x = tensor({1.0, 2.0});
  EXPECT_TRUE(equal(x, tensor({1.0, 2.0})));
  EXPECT_FALSE(equal(x, tensor({1.0, 3.0})));
  EXPECT_FALSE(equal(x, tensor({1.0})));
  EXPECT_TRUE(equal(zeros({0}), zeros({0})));
  const Tensor nan = x / zeros({2}) - x / zeros({2});
  EXPECT_FALSE(equal(nan, nan));
}

TEST(Assignments, ChangeTheDataInPlace) {
  Tensor x = tensor({1.0, 2.0, 3.0});
  const Tensor same = x, view = slice(x, 0, 1, 3);
  const uint64_t version = x.version();
  x += 1;
  x *= tensor({2.0, 3.0, 4.0});
  x -= tensor(1.0);
  x /= 2;
  EXPECT_THAT(read(same), ElementsAre(1.5, 4, 7.5));
  EXPECT_THAT(read(view), ElementsAre(4, 7.5));
  EXPECT_TRUE(x.same_as(same));
  EXPECT_EQ(x.version(), version + 4);
  Tensor half = ones({2}, DType::f16);
  half += ones({2});
  EXPECT_EQ(half.dtype(), DType::f16);
}

TEST(Assignments, OfResultsAreRecorded) {
  const Tensor x = leaf({1, 2}, {2});
  Tensor total = zeros({});
  for (int i = 1; i <= 3; ++i) total += sum(x * i);
  total *= 2;
  total.backward();
  EXPECT_THAT(read(x.grad()), ElementsAre(12, 12));
}

TEST(Assignments, RefuseWhatWouldMislead) {
  Tensor x = leaf({1, 2}, {2}), whole = tensor({1, 2}), narrow = ones({2});
  EXPECT_THAT(test::error_of([&] { x += 1; }),
              HasSubstr("add_: x: expected no leaf that requires a gradient"));
  EXPECT_THAT(test::error_of([&] { whole += 1.5; }),
              HasSubstr("add_: b: expected a result that fits into [2] i64 cpu, found [] f32 cpu"));
  EXPECT_THAT(test::error_of([&] { whole /= 2; }), HasSubstr("div_: b"));
  EXPECT_THAT(test::error_of([&] { narrow += ones({3, 2}); }), HasSubstr("add_: b"));
  const NoGrad no_grad;
  x += 1;
  EXPECT_THAT(read(x), ElementsAre(2, 3));
  EXPECT_TRUE(x.requires_grad() && x.is_leaf());
}

TEST(Indexing, TakesNumbersAndSlices) {
  const Tensor x = reshape(arange(24, DType::f32), {2, 3, 4});
  EXPECT_THAT(read(index(x, {1, 2, 3})), ElementsAre(23));
  EXPECT_THAT(read(index(x, {0, Slice(1), Slice({}, 2)})), ElementsAre(4, 5, 8, 9));
  EXPECT_THAT(read(index(x, {Slice(), -1, 0})), ElementsAre(8, 20));
  EXPECT_THAT(read(index(x, {0, 0, Slice(0, {}, 3)})), ElementsAre(0, 3));
  EXPECT_TRUE(index(x, {}).same_as(x));
  EXPECT_THAT(test::error_of([&] { index(x, {0, 0, 0, 0}); }), HasSubstr("index: entries"));
  EXPECT_THAT(test::error_of([&] { index(x, {2}); }), HasSubstr("select: index"));
}

TEST(Indexing, WritesThroughTemporaries) {
  const Tensor x = zeros({2, 3});
  x[1][2] = 4;
  x[0] = tensor({1.0, 2.0, 3.0});
  index(x, {1, Slice({}, 2)}) = 7;
  EXPECT_THAT(read(x), ElementsAre(1, 2, 3, 7, 7, 4));
  Tensor row = x[0];
  row = x[1];  // a handle refers to another tensor
  EXPECT_THAT(read(x), ElementsAre(1, 2, 3, 7, 7, 4));
  EXPECT_THAT(test::error_of([&] { x[0] = ones({4}); }), HasSubstr("copy_"));
  const Tensor weight = leaf({1, 2, 3}, {3});
  EXPECT_THAT(test::error_of([&] { weight[0] = 1; }), HasSubstr("NoGrad"));
  const NoGrad no_grad;
  x[0] = weight * 2;
  EXPECT_THAT(read(x[0]), ElementsAre(2, 4, 6));
}

TEST(Reductions, TakeOneAxisAsANumber) {
  const Tensor x = reshape(arange(6, DType::f32), {2, 3});
  EXPECT_THAT(read(sum(x, 1)), ElementsAre(3, 12));
  EXPECT_THAT(read(sum(x, 0)), ElementsAre(3, 5, 7));
  EXPECT_THAT(read(mean(x, -1)), ElementsAre(1, 4));
  EXPECT_EQ(max(x, 1, true).shape(), (Shape{2, 1}));
  EXPECT_THAT(read(norm(x, 1, 1)), ElementsAre(3, 12));
}

TEST(Creation, TakesNumbersListsAndLikenesses) {
  EXPECT_EQ(describe(tensor(3.0)), "[] f32 cpu");
  EXPECT_EQ(tensor(3.5).item(), 3.5);
  EXPECT_EQ(describe(tensor(3)), "[] i64 cpu");
  EXPECT_EQ(describe(tensor({1, 2, 3})), "[3] i64 cpu");
  EXPECT_EQ(describe(tensor({1.0, 2.0})), "[2] f32 cpu");
  EXPECT_EQ(describe(tensor({1.0, 2.0}, DType::bf16)), "[2] bf16 cpu");
  EXPECT_EQ(describe(tensor(true)), "[] bool cpu");
  EXPECT_EQ(describe(tensor({3}, {})), "[] f32 cpu") << "an empty shape, not a type";
  EXPECT_EQ(describe(tensor(3, DType::f16)), "[] f16 cpu");
  const Tensor x = zeros({2, 3}, DType::f16);
  EXPECT_EQ(describe(ones_like(x)), describe(x));
  EXPECT_THAT(read(ones_like(x)), testing::Each(1));
  EXPECT_THAT(read(full_like(x, 2.5)), testing::Each(2.5));
}

TEST(Creation, CountsInSteps) {
  EXPECT_THAT(read(arange(2, 7)), ElementsAre(2, 3, 4, 5, 6));
  EXPECT_EQ(arange(2, 7).dtype(), DType::i64);
  EXPECT_THAT(read(arange(5, -1, -2)), ElementsAre(5, 3, 1));
  EXPECT_THAT(read(arange(0, 1, 0.25)), ElementsAre(0, 0.25, 0.5, 0.75));
  EXPECT_EQ(arange(0, 1, 0.25).dtype(), DType::f32);
  EXPECT_EQ(arange(0, 3, 1, DType::bf16).dtype(), DType::bf16);
  EXPECT_EQ(arange(3, 3).numel(), 0);
  EXPECT_EQ(arange(3, 0).numel(), 0);
  EXPECT_THAT(test::error_of([] { arange(0, 3, 0); }), HasSubstr("arange: step"));
  EXPECT_THAT(test::error_of([] { arange(0, 1e300); }), HasSubstr("2^53"));
  EXPECT_THAT(test::error_of([] { arange(0, NAN); }), HasSubstr("arange"));
}

TEST(Creation, PermutesAllNumbersAlike) {
  std::vector<double> sorted = read(randperm(100, {1, 2}));
  EXPECT_EQ(read(randperm(100, {1, 2})), sorted);
  EXPECT_NE(read(randperm(100, {1, 3})), sorted);
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(sorted, read(arange(100)));
  EXPECT_EQ(randperm(0).numel(), 0);
  // Each of the 6 orders of 3 numbers in a sixth of the draws: 1000 of 6000, with a deviation of
  // sqrt(6000 * 1/6 * 5/6) = 29.
  std::map<std::vector<double>, int> counts;
  for (uint64_t stream = 0; stream < 6000; ++stream) ++counts[read(randperm(3, {1, stream}))];
  ASSERT_EQ(counts.size(), 6u);
  for (const auto& [order, count] : counts) EXPECT_NEAR(count, 1000, 5 * 29);
}

TEST(Creation, DrawsFromTheThreadsStream) {
  random::begin_step(7, 0);
  const Tensor a = randn({100}), b = randn({100}), c = rand({100}, DType::f64),
               d = randint(0, 10, {100});
  EXPECT_FALSE(test::same_bits(a, b));
  EXPECT_EQ(c.dtype(), DType::f64);
  random::begin_step(7, 0);
  EXPECT_TRUE(test::same_bits(a, randn({100})));
  EXPECT_TRUE(test::same_bits(b, randn({100})));
  EXPECT_TRUE(test::same_bits(c, rand({100}, DType::f64)));
  EXPECT_TRUE(test::same_bits(d, randint(0, 10, {100})));
}

}  // namespace
}  // namespace binade
