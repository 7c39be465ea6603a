#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "binade/base/error.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/activation.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/loss/loss.h"
#include "binade/ops/norm/softmax.h"
#include "binade/ops/reduce/reduce.h"
#include "support/special_values.h"
#include "support/tensors.h"

// Gradients at zeros, bounds, infinities and NaN. All expected values are PyTorch 2.15.0's,
// computed on the CPU with the functions of the same names.
namespace binade {
namespace {

using test::leaf;
using test::read;
using testing::DoubleEq;
using testing::ElementsAre;
using testing::Matcher;
using testing::NanSensitiveDoubleEq;

constexpr DType both_types[] = {DType::f64, DType::f32};

// Equal to a few units of f32's last place; NaN equals NaN.
void expect_values(const Tensor& found, const std::vector<double>& expected, const char* what) {
  const std::vector<double> values = read(found);
  ASSERT_EQ(values.size(), expected.size()) << what;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(expected[i])) {
      EXPECT_THAT(values[i], NanSensitiveDoubleEq(expected[i])) << what << " " << i;
    } else {
      EXPECT_NEAR(values[i], expected[i], 4 * 0x1p-23 * std::abs(expected[i])) << what << " " << i;
    }
  }
}

TEST(PyTorchEdges, BinaryCrossEntropyAtCertainty) {
  for (const DType dtype : both_types) {
    const Tensor p = leaf({0, 1, 0, 1, 0.25}, {5}, dtype), t = leaf({0, 1, 1, 0, 1}, {5}, dtype);
    const Tensor y = binary_cross_entropy(p, t, Reduce::none);
    expect_values(y, {0, 0, 100, 100, 1.3862943611198906}, "loss");
    sum(y).backward();
    expect_values(p.grad(), {0, 0, -1e12, 1e12, -4}, "gradient");
    expect_values(t.grad(), {infinity, -infinity, infinity, -infinity, 1.0986122886681098},
                  "target's gradient");
  }
}

TEST(PyTorchEdges, PowersOfZero) {
  for (const DType dtype : both_types) {
    const Tensor a = leaf({0, 0, 0, 0, 2, -2, 0}, {7}, dtype),
                 b = leaf({0, 2, 1, -1, 3, 2, 0.5}, {7}, dtype);
    const Tensor y = pow(a, b);
    expect_values(y, {1, 0, 0, infinity, 8, 4, 0}, "value");
    sum(y).backward();
    expect_values(a.grad(), {0, 0, 1, -infinity, 12, -4, infinity}, "base");
    expect_values(b.grad(), {0, 0, 0, -infinity, 5.545177444479562, nan, 0}, "exponent");
  }
}

TEST(PyTorchEdges, RemaindersOfInfinities) {
  for (const DType dtype : both_types) {
    const Tensor a = leaf({5, -5, 5, -5, 3, -3, 1, 0}, {8}, dtype),
                 b = leaf({infinity, infinity, -infinity, -infinity, -2, 2, 0, 3}, {8}, dtype);
    const Tensor y = remainder(a, b);
    expect_values(y, {5, infinity, -infinity, -5, -1, 1, nan, 0}, "value");
    sum(y).backward();
    expect_values(a.grad(), {1, 1, 1, 1, 1, 1, 1, 1}, "dividend");
    expect_values(b.grad(), {0, 1, 1, 0, 2, 2, -infinity, 0}, "divisor");
  }
}

TEST(PyTorchEdges, IntegerRemaindersHaveTheDivisorsSign) {
  const Tensor a = tensor({7, -7, 7, -7}, DType::i64), b = tensor({3, 3, -3, -3}, DType::i64);
  const Tensor y = remainder(a, b);
  EXPECT_EQ(y.dtype(), DType::i64);
  EXPECT_THAT(read(y), ElementsAre(1, 2, -2, -1));
  EXPECT_THAT(read(remainder(a, 3)), ElementsAre(1, 2, 1, 2));
  EXPECT_THROW(remainder(a, 0), Error);
}

// hardswish(-inf) is NaN in PyTorch and its limit, 0, here.
TEST(PyTorchEdges, ActivationsFarOut) {
  for (const DType dtype : both_types) {
    const auto at = [&](Tensor (*f)(const Tensor&), const std::vector<double>& x,
                        const std::vector<double>& values, const std::vector<double>& slopes) {
      const auto count = static_cast<int64_t>(x.size());
      Tensor in = tensor(x, {count}, dtype);
      in.set_requires_grad();
      const Tensor y = f(in);
      expect_values(y, values, "value");
      sum(y).backward();
      expect_values(in.grad(), slopes, "slope");
    };
    at(hardswish, {-3, 3, infinity, nan, -1000, 1000}, {0, 3, infinity, nan, 0, 1000},
       {0, 1, 1, nan, 0, 1});
    at(hardsigmoid, {-infinity, -3, 0, 3, infinity, -1000}, {0, 0, 0.5, 1, 1, 0},
       {0, 0, 1.0 / 6, 0, 0, 0});
    at(mish, {-1000, 1000, 0}, {0, 1000, 0}, {0, 1, 0.6});
    at([](const Tensor& x) { return elu(x); }, {-infinity, -1000, 1000, infinity, nan, 0},
       {-1, -1, 1000, infinity, nan, 0}, {0, 0, 1, 1, nan, 1});
    EXPECT_TRUE(std::isnan(read(hardsigmoid(full({1}, nan, dtype)))[0]));
  }
}

TEST(PyTorchEdges, TheAngleOfTheOrigin) {
  const Tensor a = leaf({0, 0, -0.0, 1, 0}, {5}), b = leaf({0, 1, -1, 0, -0.0}, {5});
  sum(atan2(a, b)).backward();
  expect_values(a.grad(), {0, 1, -1, 0, 0}, "a");
  expect_values(b.grad(), {0, 0, 0, -1, 0}, "b");
}

TEST(PyTorchEdges, NormsOfRowsWithZeros) {
  const std::pair<double, std::vector<double>> cases[] = {
      {0.5, {0, 0, 0, 1, 2.154700538379252, 1.8660254037844386, 2, 2}},
      {1, {0, 0, 0, 1, 1, 1, 1, 1}},
      {1.5,
       {0, 0, 0, 1, 0.7329564758289748, 0.8463452372482761, 0.7937005259840997,
        0.7937005259840997}},
      {2, {0, 0, 0, 1, 0.6, 0.8, 0.7071067811865475, 0.7071067811865475}},
      {infinity, {0, 0, 0, 1, 0, 1, 0.5, 0.5}}};
  for (const auto& [p, expected] : cases) {
    const Tensor x = leaf({0, 0, 0, 3, 3, 4, 4, 4}, {4, 2});
    norm(x, p, {1}).backward(ones({4}));
    expect_values(x.grad(), expected, std::to_string(p).c_str());
  }
}

TEST(PyTorchEdges, LogSumExpOfInfinities) {
  const std::tuple<double, double, double, double> cases[] = {
      {infinity, 1, nan, 0}, {1, infinity, 0, nan},         {infinity, infinity, nan, nan},
      {-infinity, 1, 0, 1},  {infinity, -infinity, nan, 0}, {-infinity, -infinity, nan, nan},
      {nan, 1, nan, nan}};
  for (const auto& [a, b, da, db] : cases) {
    const Tensor x = leaf({a, b}, {2});
    logsumexp(x).backward();
    expect_values(x.grad(), {da, db}, "gradient");
  }
}

TEST(PyTorchEdges, ClampAtItsBounds) {
  const Tensor x = leaf({-1, 0, 0.5, 1, 2, nan, infinity, -infinity}, {8});
  const Tensor y = clamp(x, 0, 1);
  expect_values(y, {0, 0, 0.5, 1, 1, nan, 1, 0}, "value");
  sum(y).backward();
  expect_values(x.grad(), {0, 0, 1, 0, 0, 0, 0, 0}, "gradient");
}

TEST(PyTorchEdges, ExtremaOfNaN) {
  const auto pair = [] {
    return std::pair(leaf({1, nan, 1, nan, 2, infinity, 3}, {7}),
                     leaf({1, 1, nan, nan, 3, infinity, 2}, {7}));
  };
  const auto [a, b] = pair();
  sum(maximum(a, b)).backward();
  expect_values(a.grad(), {0.5, 1, 1, 1, 0, 0.5, 1}, "maximum a");
  expect_values(b.grad(), {0.5, 1, 1, 1, 1, 0.5, 0}, "maximum b");
  const auto [c, d] = pair();
  sum(minimum(c, d)).backward();
  expect_values(c.grad(), {0.5, 1, 1, 1, 1, 0.5, 0}, "minimum a");
  expect_values(d.grad(), {0.5, 1, 1, 1, 0, 0.5, 1}, "minimum b");
}

TEST(PyTorchEdges, AbsAndSignOfNaN) {
  for (const DType dtype : both_types) {
    const Tensor x = leaf({-1, -0.0, 0, nan, 2, infinity}, {6}, dtype);
    const Tensor y = abs(x);
    expect_values(y, {1, 0, 0, nan, 2, infinity}, "value");
    sum(y).backward();
    expect_values(x.grad(), {-1, 0, 0, 0, 1, 1}, "gradient");
    expect_values(sign(x), {-1, 0, 0, 0, 1, 1}, "sign");
  }
}

// One masked micro-batch must not destroy the gradients of the others.
TEST(PyTorchEdges, LossesWithoutTargetsThatCount) {
  const Tensor ignored = full({2}, -100, DType::i64);
  const Tensor logits = leaf({1, 2, 3, 4}, {2, 2}), x = leaf({1, 2, 3, 4}, {2, 2}),
               weight = leaf({1, 2, 3, 4, 5, 6}, {3, 2}), p = leaf({-1, -2, -3, -4}, {2, 2});
  for (const Tensor& loss : {cross_entropy(logits, ignored), nll_loss(p, ignored),
                             linear_cross_entropy(x, weight, ignored)}) {
    EXPECT_TRUE(std::isnan(loss.item()));
    loss.backward();
  }
  for (const Tensor* leaf : {&logits, &p, &x, &weight})
    for (const double g : read(leaf->grad())) EXPECT_EQ(g, 0);
}

}  // namespace
}  // namespace binade
