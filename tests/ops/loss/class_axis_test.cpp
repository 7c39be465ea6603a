#include "binade/ops/loss/class_axis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/loss/loss.h"
#include "binade/ops/norm/softmax.h"
#include "binade/ops/shape/shape.h"
#include "support/error_of.h"
#include "support/tensors.h"

// Where the classes of losses are, with sums by hand as the oracle.
namespace binade {
namespace {

using test::error_of;
using testing::HasSubstr;

constexpr int64_t items = 2, classes = 3, height = 4, width = 5;

// A logit of each [item, class, row, column].
double logit(int64_t n, int64_t c, int64_t y, int64_t x) {
  return std::sin(static_cast<double>(1 + n * 7 + c * 3 + y * 5 + x * 11)) * 2;
}
int64_t wanted(int64_t n, int64_t y, int64_t x) { return (n * 2 + y + x * 2) % classes; }

double loss_of(int64_t n, int64_t y, int64_t x) {
  double sum = 0;
  for (int64_t c = 0; c < classes; ++c) sum += std::exp(logit(n, c, y, x));
  return std::log(sum) - logit(n, wanted(n, y, x), y, x);
}

// [items, classes, height, width] and [items, height, width].
struct Images {
  std::vector<double> logits;
  std::vector<int64_t> targets;
  std::vector<double> losses;
  Tensor x, target;

  Images() {
    for (int64_t n = 0; n < items; ++n) {
      for (int64_t c = 0; c < classes; ++c)
        for (int64_t y = 0; y < height; ++y)
          for (int64_t i = 0; i < width; ++i) logits.push_back(logit(n, c, y, i));
      for (int64_t y = 0; y < height; ++y) {
        for (int64_t i = 0; i < width; ++i) {
          targets.push_back(wanted(n, y, i));
          losses.push_back(loss_of(n, y, i));
        }
      }
    }
    x = tensor(logits, {items, classes, height, width}, DType::f64);
    target = tensor(std::span<const int64_t>(targets), {items, height, width});
  }
};

void expect_losses(const Tensor& found, const Images& images) {
  ASSERT_EQ(found.shape(), (Shape{items, height, width}));
  const std::vector<double> values = to_vector(found);
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], images.losses[i], 1e-12) << i;
}

TEST(ClassAxis, IsTheSecondOrTheLastAsTheTargetSays) {
  const Images images;
  expect_losses(cross_entropy(images.x, images.target, {.reduce = Reduce::none}), images);
  const Tensor last = permute(images.x, {0, 2, 3, 1});
  expect_losses(cross_entropy(last, images.target, {.reduce = Reduce::none}), images);
  expect_losses(nll_loss(log_softmax(images.x, 1), images.target, Reduce::none), images);
  expect_losses(nll_loss(log_softmax(last), images.target, Reduce::none), images);
}

TEST(ClassAxis, GetsTheGradientOfEveryLayout) {
  const Images images;
  Tensor x = images.x.detach().clone().set_requires_grad();
  cross_entropy(x, images.target, {.reduce = Reduce::sum}).backward();
  const std::vector<double> gradient = to_vector(x.grad());
  // softmax - one hot, of item 1, class 2, row 3, column 1.
  double sum = 0;
  for (int64_t c = 0; c < classes; ++c) sum += std::exp(logit(1, c, 3, 1));
  const double expected = std::exp(logit(1, 2, 3, 1)) / sum - (wanted(1, 3, 1) == 2 ? 1 : 0);
  EXPECT_NEAR(gradient[((1 * classes + 2) * height + 3) * width + 1], expected, 1e-12);
}

TEST(ClassAxis, WithSmoothingAndWeightsIsThatOfTheLastAxis) {
  const Images images;
  const CrossEntropyOptions options{
      .smoothing = 0.2, .ignore_index = 1, .weight = tensor({0.5, 1.0, 4.0}, DType::f64)};
  const Tensor last = permute(images.x, {0, 2, 3, 1});
  const double expected =
      cross_entropy(reshape(last, {-1, classes}), reshape(images.target, {-1}), options).item();
  EXPECT_NEAR(cross_entropy(images.x, images.target, options).item(), expected, 1e-12);
}

TEST(ClassAxis, MustBeGivenIfBothFit) {
  const Tensor x = randn({2, 3, 3}, {5, 1}), target = tensor({{0, 2, 1}, {1, 1, 2}});
  const auto message = [&](const auto& loss) { return error_of([&] { loss(x, target); }); };
  EXPECT_THAT(message([](const Tensor& a, const Tensor& b) { cross_entropy(a, b); }),
              HasSubstr("cross_entropy: target"));
  EXPECT_THAT(message([](const Tensor& a, const Tensor& b) { nll_loss(a, b); }),
              HasSubstr("nll_loss: target"));
  const double second = cross_entropy(x, target, {.class_axis = 1}).item();
  const double last = cross_entropy(x, target, {.class_axis = -1}).item();
  EXPECT_NEAR(second, cross_entropy(transpose(x, 1, 2), target, {.class_axis = 2}).item(), 1e-6);
  EXPECT_GT(std::abs(second - last), 1e-3);
  EXPECT_NEAR(second, nll_loss(log_softmax(x, 1), target, Reduce::mean, -100, 1).item(), 1e-6);
  EXPECT_THAT(error_of([&] { cross_entropy(x, target, {.class_axis = 3}); }),
              HasSubstr("cross_entropy"));
}

TEST(ClassAxis, OfProbabilitiesHasNoShapeToTellIt) {
  const Images images;
  const Tensor p = softmax(images.x * 0.5, 1);
  EXPECT_THAT(error_of([&] { cross_entropy(images.x, p); }), HasSubstr("pass class_axis"));
  const Tensor rows = reshape(permute(images.x, {0, 2, 3, 1}), {-1, classes});
  const Tensor parts = reshape(permute(p, {0, 2, 3, 1}), {-1, classes});
  EXPECT_NEAR(cross_entropy(images.x, p, {.class_axis = 1}).item(),
              cross_entropy(rows, parts).item(), 1e-12);
  EXPECT_EQ(cross_entropy(images.x, p, {.reduce = Reduce::none, .class_axis = 1}).shape(),
            (Shape{items, height, width}));
}

TEST(ClassAxis, IsTheLayersOfAFusedHead) {
  const Tensor x = randn({2, 3, 4}, {6, 1}), weight = randn({3, 4}, {6, 2});
  const Tensor target = tensor({{0, 2, 1}, {1, 1, 2}});
  EXPECT_NEAR(linear_cross_entropy(x, weight, target).item(),
              linear_cross_entropy_composite(x, weight, target).item(), 1e-6)
      << "as many rows as classes";
  EXPECT_THAT(error_of([&] { linear_cross_entropy(x, weight, target, {.class_axis = 1}); }),
              HasSubstr("options.class_axis: expected -1"));
}

TEST(ClassAxis, RefusesTargetsThatFitNone) {
  const Images images;
  EXPECT_THAT(error_of([&] {
                cross_entropy(images.x, tensor({{0, 1}, {2, 1}}));
              }),
              HasSubstr("cross_entropy: target"));
  EXPECT_THAT(error_of([&] { cross_entropy(images.x, images.x.slice(0, 0, 1)); }),
              HasSubstr("cross_entropy: target"));
}

}  // namespace
}  // namespace binade
