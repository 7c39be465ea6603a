// Values of PyTorch 1.13 unless said otherwise.
#include "binade/ops/index/count.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "binade/ops/composed.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/reduce/quantile.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/shape.h"
#include "support/error_of.h"

namespace binade {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const double nan = std::numeric_limits<double>::quiet_NaN();

TEST(Count, UniqueSortsAndSaysWhereAndHowOften) {
  const Tensor x = tensor({{3, 1, 3}, {-2, 1, 3}});
  const Unique found = unique(x, {.inverse = true, .counts = true});
  EXPECT_THAT(to_vector(found.values), ElementsAre(-2, 1, 3));
  EXPECT_EQ(found.values.dtype(), DType::i64);
  EXPECT_EQ(found.inverse.shape(), (Shape{2, 3}));
  EXPECT_THAT(to_vector(found.inverse), ElementsAre(2, 1, 2, 0, 1, 2));
  EXPECT_THAT(to_vector(found.counts), ElementsAre(1, 2, 3));
  EXPECT_FALSE(unique(x).inverse.defined());
}

TEST(Count, UniqueTakesEveryNanForItselfAndNothing) {
  const Unique found = unique(tensor({1.0, nan, 0.5, nan, 1.0}), {.counts = true});
  EXPECT_EQ(found.values.numel(), 4);
  EXPECT_THAT(to_vector(found.counts), ElementsAre(1, 2, 1, 1));
  EXPECT_EQ(unique(zeros({0}), {.inverse = true, .counts = true}).counts.numel(), 0);
  EXPECT_THAT(to_vector(unique(tensor({true, true})).values), ElementsAre(1));
}

TEST(Count, RunsOfEqualElements) {
  const Unique found =
      unique_consecutive(tensor({1, 1, 2, 2, 2, 1}), {.inverse = true, .counts = true});
  EXPECT_THAT(to_vector(found.values), ElementsAre(1, 2, 1));
  EXPECT_THAT(to_vector(found.inverse), ElementsAre(0, 0, 1, 1, 1, 2));
  EXPECT_THAT(to_vector(found.counts), ElementsAre(2, 3, 1));
}

TEST(Count, BincountAddsWeights) {
  const Tensor x = tensor({4, 1, 1, 0});
  EXPECT_THAT(to_vector(bincount(x)), ElementsAre(1, 2, 0, 0, 1));
  EXPECT_THAT(to_vector(bincount(x, {}, 7)), ElementsAre(1, 2, 0, 0, 1, 0, 0));
  EXPECT_THAT(to_vector(bincount(x, tensor({0.5, 1.0, 2.0, 4.0}))), ElementsAre(4, 3, 0, 0, 0.5));
  EXPECT_EQ(bincount(zeros({0}, DType::i64)).numel(), 0);
  EXPECT_THAT(test::error_of([] { bincount(tensor({1, -1})); }), HasSubstr("found -1"));
}

TEST(Count, SearchsortedOnBothSides) {
  const Tensor sorted = tensor({1.0, 3.0, 3.0, 5.0}), values = tensor({3.0, 0.0, 9.0, nan});
  EXPECT_THAT(to_vector(searchsorted(sorted, values)), ElementsAre(1, 0, 4, 4));
  EXPECT_THAT(to_vector(searchsorted(sorted, values, true)), ElementsAre(3, 0, 4, 4));
  const Tensor rows = tensor({{1, 2}, {10, 20}}), wanted = tensor({{2, 3}, {2, 30}});
  EXPECT_THAT(to_vector(searchsorted(rows, wanted)), ElementsAre(1, 2, 0, 2));
  EXPECT_EQ(searchsorted(sorted, tensor(4.0)).item(), 3);
}

TEST(Count, MedianTakesTheLowerMiddleAndNan) {
  Tensor x = tensor({{3.0, 1.0, 2.0, 4.0}, {8.0, 5.0, 7.0, 6.0}}).set_requires_grad();
  EXPECT_EQ(median(x).item(), 4);
  const Sorted rows = median(x, 1);
  EXPECT_THAT(to_vector(rows.values), ElementsAre(2, 6));
  EXPECT_THAT(to_vector(rows.index), ElementsAre(2, 3));
  sum(rows.values).backward();
  EXPECT_THAT(to_vector(x.grad()), ElementsAre(0, 0, 1, 0, 0, 0, 0, 1));
  EXPECT_TRUE(std::isnan(median(tensor({1.0, nan, 2.0})).item()));
  EXPECT_EQ(median(tensor({{1.0, nan, 2.0}}), 1).index.item(), 1);
  EXPECT_EQ(median(tensor({5, 1, 4, 2})).item(), 2);
  EXPECT_TRUE(std::isnan(median(zeros({0})).item()));
}

TEST(Count, QuantileInterpolatesAndPassesItsGradient) {
  Tensor x = tensor({4.0, 1.0, 3.0, 2.0}).set_requires_grad();
  const Tensor q = quantile(x, 0.4);  // at 1.2 of the sorted 1, 2, 3, 4
  EXPECT_NEAR(q.item(), 2.2, 1e-6);
  q.backward();
  const std::vector<double> gradient = to_vector(x.grad());
  EXPECT_NEAR(gradient[3], 0.8, 1e-6);
  EXPECT_NEAR(gradient[2], 0.2, 1e-6);
  EXPECT_EQ(quantile(x, tensor({0.0, 1.0})).shape(), (Shape{2}));
  EXPECT_EQ(quantile(ones({2, 3, 4}), 0.5, 1).shape(), (Shape{2, 4}));
  EXPECT_EQ(quantile(ones({2, 3, 4}), tensor({0.1, 0.2}), 1, true).shape(), (Shape{2, 2, 1, 4}));
  EXPECT_EQ(quantile(ones({2, 3}), 0.5, {}, true).shape(), (Shape{1, 1}));
  EXPECT_EQ(quantile(ones({2, 3}), tensor({0.1, 0.2}), {}, true).shape(), (Shape{2, 1, 1}));
  EXPECT_EQ(quantile(tensor(2.5), 0.3, 0).item(), 2.5);
  EXPECT_THAT(test::error_of([] { quantile(tensor(2.5), 0.3, 1); }), HasSubstr("quantile"));
  EXPECT_TRUE(std::isnan(quantile(tensor({1.0, nan}), 0.0).item()));
  EXPECT_THAT(test::error_of([&] { quantile(x, 1.5); }), HasSubstr("quantile"));
}

TEST(Count, DiagonalsAreViewsWithGradients) {
  Tensor x = tensor({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}}).set_requires_grad();
  EXPECT_THAT(to_vector(diagonal(x, 1)), ElementsAre(2, 6));
  EXPECT_EQ(diagonal(x, 5).numel(), 0);
  sum(diagonal(x, -1) * 3).backward();
  EXPECT_THAT(to_vector(x.grad()), ElementsAre(0, 0, 0, 3, 0, 0));
  const Tensor base = zeros({3, 3});
  fill_(diagonal(base), 2);
  EXPECT_EQ(sum(base).item(), 6);
  Tensor line = tensor({1.0, 2.0}).set_requires_grad();
  EXPECT_THAT(to_vector(diag(line, 1)), ElementsAre(0, 1, 0, 0, 0, 2, 0, 0, 0));
  sum(diag(line, -1) * 5).backward();
  EXPECT_THAT(to_vector(line.grad()), ElementsAre(5, 5));
}

TEST(Count, LerpIsExactAtBothEnds) {
  Tensor a = tensor({1e8, 1.0}).set_requires_grad();
  const Tensor b = tensor({1.0, 3.0});
  EXPECT_THAT(to_vector(lerp(a, b, 1)), ElementsAre(1, 3));
  sum(lerp(a, b, 0.25)).backward();
  EXPECT_THAT(to_vector(a.grad()), ElementsAre(0.75, 0.75));
}

TEST(Composed, RepeatsByACountForEachIndex) {
  Tensor x = tensor({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}}).set_requires_grad();
  const Tensor y = repeat_interleave(x, tensor({2, 0, 1}), 1);
  EXPECT_THAT(to_vector(y), ElementsAre(1, 1, 3, 4, 4, 6));
  sum(y).backward();
  EXPECT_THAT(to_vector(x.grad()), ElementsAre(2, 0, 1, 2, 0, 1));
  EXPECT_THAT(to_vector(repeat_interleave(x, tensor({2}), 0)),
              ElementsAre(1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6));
  EXPECT_THAT(to_vector(tensor({7, 8}).repeat_interleave(tensor({1, 3}))), ElementsAre(7, 8, 8, 8));
  EXPECT_THAT(test::error_of([&] {
                repeat_interleave(x, tensor({2, 1}), 1);
              }),
              HasSubstr("repeat_interleave: counts"));
  EXPECT_THAT(test::error_of([&] {
                repeat_interleave(x, tensor({2, -1}), 0);
              }),
              HasSubstr("found -1"));
}

TEST(Composed, IndexAddScalesAndTakesIntegers) {
  const Tensor x = zeros({2, 3}), source = tensor({{1.0, 2.0}, {4.0, 8.0}});
  EXPECT_THAT(to_vector(index_add(x, 1, tensor({2, 2}), source, 0.5)),
              ElementsAre(0, 0, 1.5, 0, 0, 6));
  const Tensor counts = zeros({3}, DType::i64);
  counts.index_add_(0, tensor({2, 0, 2}), tensor({1, 5, 10}));
  EXPECT_THAT(to_vector(counts), ElementsAre(5, 0, 11));
  EXPECT_THAT(test::error_of([&] { index_add(x, 1, tensor({0}), source); }),
              HasSubstr("index_add: source: expected [2, 1]"));
  EXPECT_THAT(test::error_of([&] {
                index_add(x, 0, tensor({5}), zeros({1, 3}));
              }),
              HasSubstr("found 5"));
}

TEST(Composed, ClosenessOfNanIsAnOption) {
  const Tensor x = tensor({nan, 1.0, nan}), y = tensor({nan, 1.0, 2.0});
  EXPECT_THAT(to_vector(isclose(x, y)), ElementsAre(0, 1, 0));
  EXPECT_THAT(to_vector(isclose(x, y, 1e-5, 1e-8, true)), ElementsAre(1, 1, 0));
  EXPECT_TRUE(x.allclose(x, 1e-5, 1e-8, true));
  EXPECT_FALSE(x.allclose(x));
}

TEST(Composed, SpreadsHaveACorrection) {
  const auto [deviation, middle] = std_mean(tensor({{1.0, 3.0}, {2.0, 6.0}}), 1, true, 0);
  EXPECT_THAT(to_vector(deviation), ElementsAre(1, 2));
  EXPECT_THAT(to_vector(middle), ElementsAre(2, 4));
  EXPECT_EQ(middle.shape(), (Shape{2, 1}));
  EXPECT_THAT(to_vector(var_mean(tensor({1.0, 3.0})).first), ElementsAre(2));
}

TEST(Composed, InPlaceFormsKeepTheGraph) {
  Tensor w = tensor({1.0, -2.0, 4.0}).set_requires_grad();
  const Tensor y = w * 1;
  y.lerp_(tensor({3.0, 2.0, 0.0}), 0.25);  // 1.5 -1 3
  y.index_fill_(0, tensor({1}), 7);
  y.fmod_(2);
  EXPECT_THAT(to_vector(y), ElementsAre(1.5, 1, 1));
  sum(y * tensor({1.0, 10.0, 100.0})).backward();
  EXPECT_THAT(to_vector(w.grad()), ElementsAre(0.75, 0, 75));
  EXPECT_THAT(test::error_of([] {
                tensor({1, 2}).lerp_(tensor({0.5, 0.5}), 0.5);
              }),
              HasSubstr("lerp_"));
}

}  // namespace
}  // namespace binade
