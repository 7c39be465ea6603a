#include "binade/lab/fault.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "binade/binade.h"

namespace binade::lab {
namespace {

using autograd::ModuleScope;
using ::testing::HasSubstr;

constexpr double inf_value = std::numeric_limits<double>::infinity();

// sqrt at 0 is finite, its gradient is not.
Tensor root_of_zero(const char* module, const Tensor& w) {
  const ModuleScope scope(module);
  return sum(sqrt(w));
}

Tensor zero_leaf() { return zeros({2, 3}).set_requires_grad(); }

// Backwards run in the reverse order of their forwards: what was computed last goes wrong first.
TEST(FaultFinder, GivesTheEarliestOriginOfAllGradients) {
  for (const int count : {2, 3, 8}) {
    std::vector<Tensor> leaves;
    NamedTensors names;
    for (int i = 0; i < count; ++i) {
      leaves.push_back(zero_leaf());
      names.emplace_back("w" + std::to_string(i), leaves.back());
    }
    FaultFinder finder(names, 4);
    const autograd::OpObserverScope watching(&finder);
    Tensor loss = zeros({});
    for (int i = 0; i < count; ++i)
      loss = loss +
             root_of_zero(("layer" + std::to_string(i)).c_str(), leaves[static_cast<size_t>(i)]);
    EXPECT_EQ(finder.origin(loss), nullptr);
    EXPECT_EQ(finder.gradient_origin(), nullptr);
    loss.backward();
    const Finding* found = finder.gradient_origin();
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->module, "layer" + std::to_string(count - 1));
    EXPECT_EQ(found->op, "sqrt");
    EXPECT_EQ(found->direction, Direction::backward);
    EXPECT_EQ(found->origin, Origin::op);
    EXPECT_EQ(found->first.value, inf_value);
    EXPECT_EQ(found->first.count, 6);
    EXPECT_EQ(found->scale, 4);
    EXPECT_THAT(found->tensor, HasSubstr("w" + std::to_string(count - 1)));
  }
}

// A healthy leaf between bad ones does not hide them, and a value from the forward comes first.
TEST(FaultFinder, TakesAForwardBeforeAnyBackward) {
  const Tensor bad_forward = zero_leaf(), healthy = ones({2, 3}).set_requires_grad(),
               bad_backward = zero_leaf();
  FaultFinder finder;
  const autograd::OpObserverScope watching(&finder);
  Tensor loss;
  {
    const ModuleScope scope("forward");
    loss = sum(log(bad_forward));
  }
  loss = loss + sum(healthy * 2.0) + root_of_zero("backward", bad_backward);
  ASSERT_NE(finder.origin(loss), nullptr);
  EXPECT_EQ(finder.origin(loss)->module, "forward");
  loss.backward();
  ASSERT_NE(finder.gradient_origin(), nullptr);
  EXPECT_EQ(finder.gradient_origin()->module, "forward");
  EXPECT_EQ(finder.gradient_origin()->op, "log");
}

TEST(FirstNonFinite, IsTheFirstInTheOrderOfTheShape) {
  Tensor x = ones({3, 4});
  EXPECT_FALSE(first_non_finite(x));
  fill_(x.strided({1}, {1}, 9), -inf_value);
  fill_(x.strided({1}, {1}, 6), std::nan(""));
  const auto bad = first_non_finite(x);
  ASSERT_TRUE(bad);
  EXPECT_EQ(bad->index, Shape({1, 2}));
  EXPECT_EQ(bad->count, 2);
  EXPECT_TRUE(std::isnan(bad->value));
  // Transposed, [1, 2] and [2, 1] become [2, 1] and [1, 2].
  const auto turned = first_non_finite(x.strided({4, 3}, {1, 4}, 0));
  EXPECT_EQ(turned->index, Shape({1, 2}));
  EXPECT_EQ(turned->value, -inf_value);
  EXPECT_FALSE(first_non_finite(Tensor()));
  EXPECT_FALSE(first_non_finite(zeros({0, 3})));
}

// The first parameter in the optimizer's order, and of its tensors the gradient before the rest.
TEST(ExamineUpdate, NamesTheFirstTensorThatIsNotFinite) {
  const Tensor a = ones({2}).set_requires_grad(), b = ones({2}).set_requires_grad();
  optim::AdamW adam({a, b}, {.lr = 0.1});
  const NamedTensors names = {{"block.a", a}, {"block.b", b}};
  a.set_grad(ones({2}));
  b.set_grad(ones({2}));
  adam.step();
  EXPECT_FALSE(examine_update(adam, names));
  b.set_grad(full({2}, inf_value));
  auto found = examine_update(adam, names, 8);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->origin, Origin::seed);
  EXPECT_THAT(found->tensor, HasSubstr("gradient of block.b"));
  EXPECT_EQ(found->module, "block");
  EXPECT_EQ(found->scale, 8);
  {
    const NoGrad no_grad;
    fill_(a, std::nan(""));
  }
  found = examine_update(adam, names);
  EXPECT_EQ(found->origin, Origin::update);
  EXPECT_THAT(found->tensor, HasSubstr("block.a"));
}

}  // namespace
}  // namespace binade::lab
