#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/activation.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/loss/loss.h"
#include "binade/ops/reduce/reduce.h"
#include "support/tensors.h"

// Types and extreme values as PyTorch has them.
namespace binade {
namespace {

using test::error_of;
using test::leaf;
using test::read;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr double inf = std::numeric_limits<double>::infinity();

TEST(Types, OfBoolsFollowTheNumberBesideThem) {
  const Tensor mask = tensor({true, false});
  EXPECT_EQ((mask + 1).dtype(), DType::i64);
  EXPECT_THAT(read(mask + 1), ElementsAre(2, 1));
  EXPECT_EQ((mask * 2.5).dtype(), DType::f32);
  EXPECT_EQ((1 - mask).dtype(), DType::i64);
  EXPECT_EQ((mask + tensor({1, 2}, DType::i32)).dtype(), DType::i32);
  EXPECT_EQ((mask + tensor(1, DType::i32)).dtype(), DType::i32);
  EXPECT_EQ((tensor({1, 2}, DType::i32) + tensor(1)).dtype(), DType::i32);
  EXPECT_EQ((mask + mask).dtype(), DType::boolean);
  EXPECT_THAT(error_of([&] { mask - mask; }), HasSubstr("sub: operands: expected at least one of"));
  Tensor target = mask;
  EXPECT_THAT(error_of([&] { target -= mask; }), HasSubstr("a & ~b"));
  EXPECT_THAT(error_of([&] { -mask; }), HasSubstr("logical_not()"));
}

TEST(Types, OfIntegersAreKeptExactly) {
  const int64_t big = (int64_t{1} << 60) + 1;
  const Tensor x = tensor({big, -big, int64_t{7}, int64_t{-7}});
  const auto values = [](const Tensor& y) {
    EXPECT_EQ(y.dtype(), DType::i64);
    return std::vector<int64_t>(y.data<int64_t>(), y.data<int64_t>() + y.numel());
  };
  EXPECT_THAT(values(-x), ElementsAre(-big, big, -7, 7));
  EXPECT_THAT(values(abs(x)), ElementsAre(big, big, 7, 7));
  EXPECT_THAT(values(floor_divide(x, 2)), ElementsAre(big / 2, -big / 2 - 1, 3, -4));
  EXPECT_THAT(values(x % 3), ElementsAre(big % 3, 3 - big % 3, 1, 2));
  EXPECT_THAT(values(x % -3), ElementsAre(big % 3 - 3, -(big % 3), -2, -1));
  EXPECT_THAT(values(pow(tensor({3, -2}), 39)), ElementsAre(4052555153018976267, -549755813888));
  EXPECT_THAT(values(pow(tensor({3, 10}), tensor({4, 18}))), ElementsAre(81, 1000000000000000000));
  EXPECT_THAT(values(sign(x)), ElementsAre(1, -1, 1, -1));
  EXPECT_THAT(values(floor(x)), ElementsAre(big, -big, 7, -7));
  EXPECT_THAT(values(clamp(x, -10, 10)), ElementsAre(10, -10, 7, -7));
  EXPECT_THAT(values(~x), ElementsAre(-big - 1, big - 1, -8, 6));
  EXPECT_THAT(values(x & tensor(5)), ElementsAre(1, 5, 5, 1));
  EXPECT_THAT(values(bitwise_left_shift(tensor({1, -3}), tensor({40, 2}))),
              ElementsAre(int64_t{1} << 40, -12));
  EXPECT_THAT(values(bitwise_right_shift(tensor({1024, -3}), tensor({3, 1}))),
              ElementsAre(128, -2));
  EXPECT_THAT(error_of([&] { x % 0; }), HasSubstr("remainder: b: expected no zero"));
  EXPECT_THAT(error_of([&] { floor_divide(x, 0); }), HasSubstr("floor_divide: b"));
  EXPECT_THAT(error_of([&] { pow(x, -1); }), HasSubstr("pow: exponent"));
  EXPECT_THAT(error_of([&] { ones({2}) & ones({2}); }), HasSubstr("bitwise_and: a"));
}

TEST(Types, BoolsHaveOneBit) {
  const Tensor a = tensor({true, true, false}), b = tensor({true, false, false});
  EXPECT_THAT(read(a & b), ElementsAre(1, 0, 0));
  EXPECT_THAT(read(a | b), ElementsAre(1, 1, 0));
  EXPECT_THAT(read(a ^ b), ElementsAre(0, 1, 0));
  EXPECT_THAT(read(~a), ElementsAre(0, 0, 1));
  EXPECT_EQ((~a).dtype(), DType::boolean);
  EXPECT_THAT(read(~tensor({0, 7}, DType::u8)), ElementsAre(255, 248));
}

TEST(Types, FloorsOfQuotients) {
  EXPECT_THAT(read(floor_divide(tensor({7.0, -7.0, 0.5}), 2)), ElementsAre(3, -4, 0));
  EXPECT_THAT(read(floor_divide(tensor({1.0, -1.0}), tensor({0.0, 0.0}))), ElementsAre(inf, -inf));
  // As in NumPy and PyTorch: the floor of a quotient that is just above or below 0.
  EXPECT_THAT(read(floor_divide(tensor({1.0, -1.0}), inf)), ElementsAre(0, -1));
  EXPECT_THAT(read(floor_divide(tensor({1.0, -1.0}), -inf)), ElementsAre(-1, 0));
}

TEST(Extremes, StepsHaveGradientsOfZero) {
  for (Tensor (*f)(const Tensor&) : {sign, floor, ceil, round, trunc}) {
    const Tensor x = leaf({-1.5, 0.25}, {2});
    sum(f(x) + x).backward();
    EXPECT_THAT(read(x.grad()), ElementsAre(1, 1));
    x.zero_grad();
    sum(f(x)).backward();
    EXPECT_THAT(read(x.grad()), ElementsAre(0, 0));
  }
}

TEST(Extremes, DeviationsNeitherOverflowNorVanish) {
  EXPECT_FLOAT_EQ(binade::std(tensor({1e30, 3e30})).item(), std::sqrt(2) * 1e30);
  EXPECT_FLOAT_EQ(binade::std(tensor({1e-30, 3e-30})).item(), std::sqrt(2) * 1e-30);
  const Tensor large = full({1000}, 1e19);
  EXPECT_FLOAT_EQ(var(large * tensor({1, -1}, {2, 1}), {}, false, 0).item(), 1e38);
  const Tensor x = leaf({1e30, 3e30}, {2});
  binade::std(x).backward();
  EXPECT_FLOAT_EQ(static_cast<float>(read(x.grad())[1]), std::sqrt(0.5));
}

TEST(Extremes, LossesOfInfiniteDifferences) {
  const Tensor zero = zeros({3});
  Tensor x = leaf({inf, -inf, 0.5}, {3});
  sum(smooth_l1_loss(x, zero, Reduce::none)).backward();
  EXPECT_THAT(read(x.grad()), ElementsAre(1, -1, 0.5));
  x = leaf({inf, -inf, 0.5}, {3});
  EXPECT_EQ(huber_loss(x, zero, Reduce::sum, 2).item(), inf);
  huber_loss(x, zero, Reduce::sum, 2).backward();
  EXPECT_THAT(read(x.grad()), ElementsAre(2, -2, 0.5));
}

TEST(Extremes, BceKeepsSmallLosses) {
  for (const DType type : {DType::f16, DType::bf16, DType::f32}) {
    const Tensor logits = leaf({-10, 10, 0}, {3}, type);
    const Tensor losses = bce_with_logits(logits, tensor({0, 1, 1}, {3}, type), Reduce::none);
    EXPECT_EQ(losses.dtype(), type);
    const double small = std::log1p(std::exp(-10));
    EXPECT_NEAR(read(losses)[0], small, small * epsilon(type));
    EXPECT_NEAR(read(losses)[1], small, small * epsilon(type));
    sum(losses, {}, false, DType::f32).backward();
    const double slope = 1 / (1 + std::exp(10));
    EXPECT_NEAR(read(logits.grad())[0], slope, slope * 2 * epsilon(type));
    EXPECT_NEAR(read(logits.grad())[1], -slope, slope * 2 * epsilon(type));
    EXPECT_EQ(read(logits.grad())[2], -0.5);
  }
}

// -log softmax of three logits, by hand.
std::vector<double> surprises(const std::vector<double>& logits) {
  double total = 0;
  for (const double x : logits) total += std::exp(x);
  std::vector<double> result;
  for (const double x : logits) result.push_back(std::log(total) - x);
  return result;
}

TEST(CrossEntropy, WeighsClasses) {
  const std::vector<double> rows[] = {{1, 2, 0.5}, {-1, 0, 3}, {0, 0, 0}};
  const double w[] = {2, 0.5, 4};
  const int64_t classes[] = {2, 0, -100};
  const Tensor logits = tensor({1, 2, 0.5, -1, 0, 3, 0, 0, 0}, {3, 3}, DType::f64);
  for (const double smoothing : {0.0, 0.25}) {
    double sum = 0, weight = 0;
    for (int i = 0; i < 2; ++i) {
      const auto each = surprises(rows[i]);
      sum += (1 - smoothing) * w[classes[i]] * each[static_cast<size_t>(classes[i])];
      for (size_t c = 0; c < 3; ++c) sum += smoothing / 3 * w[c] * each[c];
      weight += w[classes[i]];
    }
    const CrossEntropyOptions options{.smoothing = smoothing,
                                      .weight = tensor({2, 0.5, 4}, {3}, DType::f64)};
    const Tensor target = tensor({2, 0, -100});
    EXPECT_NEAR(cross_entropy(logits, target, options).item(), sum / weight, 1e-12);
  }
  EXPECT_THAT(error_of([&] {
                cross_entropy(logits, tensor({0, 1, 2}), {.weight = ones({2})});
              }),
              HasSubstr("cross_entropy: weight: expected [3]"));
}

TEST(CrossEntropy, TakesProbabilities) {
  const double p[] = {0.5, 0.25, 0.25};
  const auto each = surprises({1, 2, 0.5});
  const Tensor logits = tensor({1, 2, 0.5}, {1, 3}, DType::f64),
               target = tensor({0.5, 0.25, 0.25}, {1, 3}, DType::f64);
  double plain = 0, smoothed = 0;
  for (size_t c = 0; c < 3; ++c) {
    plain += p[c] * each[c];
    smoothed += (p[c] * 0.7 + 0.1) * static_cast<double>(c + 1) * each[c];
  }
  EXPECT_NEAR(cross_entropy(logits, target).item(), plain, 1e-12);
  const Tensor weight = tensor({1, 2, 3}, {3}, DType::f64);
  EXPECT_NEAR(cross_entropy(logits, target, {.smoothing = 0.3, .weight = weight}).item(), smoothed,
              1e-12);
  EXPECT_THAT(error_of([&] { cross_entropy(logits, ones({1}, DType::f64)); }),
              HasSubstr("cross_entropy: target"));
}

TEST(Extremes, ActivationsInF64) {
  const Tensor x = tensor({-2.9, 0.7, 1.1}, {3}, DType::f64);
  EXPECT_THAT(read(hardsigmoid(x)), ElementsAre((-2.9 + 3) / 6, (0.7 + 3) / 6, (1.1 + 3) / 6));
  const Tensor low = leaf({-20}, {1});
  elu(low).backward();
  EXPECT_FLOAT_EQ(static_cast<float>(read(low.grad())[0]), std::exp(-20.f));
}

}  // namespace
}  // namespace binade
