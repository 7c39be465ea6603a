#include "binade/autograd/node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/autograd/engine.h"
#include "binade/autograd/grad_mode.h"
#include "binade/autograd/module_path.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/matmul/linear.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/shape.h"
#include "support/tensors.h"

namespace binade::autograd {
namespace {

using test::leaf;
using testing::ElementsAre;
using testing::HasSubstr;

const Node& node_of(const Tensor& y) { return *y.autograd_meta()->node; }

TEST(Node, KnowsItsOpModuleAndOrder) {
  const Tensor x = leaf({1, 2}, {2});
  const Tensor first = exp(x);
  const ModuleScope scope("h.0");
  const Tensor second = first * x;
  EXPECT_EQ(node_of(first).op, Op::exp);
  EXPECT_EQ(node_of(second).op, Op::mul);
  EXPECT_EQ(node_of(first).module, "");
  EXPECT_EQ(node_of(second).module, "h.0");
  EXPECT_LT(node_of(first).sequence, node_of(second).sequence);
}

TEST(Node, NeedsGradientsOnlyForInputsThatRequireThem) {
  const Tensor x = leaf({1, 2}, {2});
  const Tensor y = x * tensor({3, 4}, {2});
  ASSERT_EQ(node_of(y).inputs.size(), 2u);
  EXPECT_TRUE(node_of(y).inputs[0].needs_grad());
  EXPECT_FALSE(node_of(y).inputs[1].needs_grad());
}

TEST(Recording, FollowsModeAndInputs) {
  const Tensor x = leaf({1}, {1}), plain = tensor({1}, {1});
  EXPECT_TRUE(recording(std::vector<Tensor>{plain, x}));
  EXPECT_FALSE(recording(std::vector<Tensor>{plain, Tensor()}));
  const NoGrad off;
  EXPECT_FALSE(recording(std::vector<Tensor>{x}));
}

TEST(Saved, DetectsThatItsDataChanged) {
  const Tensor x = tensor({1, 2}, {2});
  const Saved saved(x);
  EXPECT_THAT(test::read(saved.get()), ElementsAre(1, 2));
  fill_(x, 5);
  EXPECT_EQ(test::error_of([&] { saved.get(); }),
            "backward: saved tensor [2] f32 cpu: expected its data unchanged since the forward "
            "(version 0), found version 1; "
            "an in-place change came between forward and backward: change a copy instead");
  EXPECT_FALSE(Saved(Tensor()).get().defined());
}

TEST(Saved, ErrorNamesTheOp) {
  const Tensor x = leaf({1, 2}, {2}), factor = tensor({3, 4}, {2});
  const Tensor y = sum(x * factor);
  fill_(factor, 0);
  EXPECT_THAT(test::error_of([&] { y.backward(); }),
              testing::StartsWith("mul: saved tensor [2] f32 cpu: expected its data unchanged"));
}

TEST(Saved, SeesChangesThroughViews) {
  const Tensor x = leaf({1, 2, 3, 4}, {2, 2}), weight = tensor({1, 2, 3, 4}, {2, 2});
  const Tensor y = sum(linear(x, weight));
  fill_(select(weight, 0, 1), 0);
  EXPECT_THAT(test::error_of([&] { y.backward(); }), testing::StartsWith("linear: saved tensor"));
}

TEST(Saved, DoesNotMindChangesOfWhatWasNotSaved) {
  const Tensor x = leaf({1, 2}, {2}), other = tensor({3, 4}, {2});
  const Tensor y = sum(x + other);
  fill_(other, 0);
  y.backward();
  EXPECT_THAT(test::read(x.grad()), ElementsAre(1, 1));
}

TEST(GradSlot, RefusesGradientsOfAnotherShape) {
  const Tensor x = leaf({1, 2}, {2});
  EXPECT_THAT(test::error_of([&] { GradSlot(x.autograd_meta()).add(tensor({1}, {1})); }),
              HasSubstr("backward: gradient: expected [2] on cpu, found [1] f32 cpu"));
  EXPECT_NE(test::error_of([&] {
              GradSlot(x.autograd_meta()).add(Tensor::empty({2}, DType::f32, Device::meta()));
            }),
            "");
  GradSlot(nullptr).add(tensor({1}, {1}));  // the gradient is unused
}

TEST(GradSlot, TargetSaysWhetherItHoldsAGradient) {
  const Tensor x = leaf({1, 2}, {2}, DType::bf16);
  const GradSlot slot(x.autograd_meta());
  const auto first = slot.target();
  EXPECT_FALSE(first.accumulate);
  EXPECT_EQ(first.buffer.dtype(), DType::f32);
  const auto second = slot.target();
  EXPECT_TRUE(second.accumulate);
  EXPECT_TRUE(second.buffer.same_as(first.buffer));
}

// Both operands of an addition get the very same gradient: adding to one must not change the other.
TEST(GradSlot, SharedGradientsAreNotOverwritten) {
  const Tensor x = leaf({1, 2}, {2});
  const Tensor a = x * 1.0, b = x * 1.0;
  const Tensor total = a + b;    // one gradient for a and b
  const Tensor more = a * 10.0;  // adds another gradient to a
  std::vector<double> seen_a, seen_b;
  on_gradient(a, [&](const Tensor& g) { return seen_a = test::read(g), Tensor(); });
  on_gradient(b, [&](const Tensor& g) { return seen_b = test::read(g), Tensor(); });
  sum(total + more).backward();
  EXPECT_THAT(seen_a, ElementsAre(11, 11));
  EXPECT_THAT(seen_b, ElementsAre(1, 1));
  EXPECT_THAT(test::read(x.grad()), ElementsAre(12, 12));
}

TEST(GradSlot, TheUsersSeedIsNotOverwritten) {
  const Tensor x = leaf({1, 2}, {2});
  const Tensor y = x * 1.0;
  const Tensor z = y + y;
  const Tensor seed = tensor({1, 1}, {2});
  z.backward(seed);
  EXPECT_THAT(test::read(seed), ElementsAre(1, 1));
  EXPECT_THAT(test::read(x.grad()), ElementsAre(2, 2));
}

TEST(Graph, KeepsOnlyWhatTheBackwardNeeds) {
  const Tensor x = leaf({1, 2}, {2});
  const int64_t before = memory::allocated();
  Tensor y = x + 1.0;
  for (int i = 0; i < 10; ++i) y = y + 1.0;  // saves nothing
  EXPECT_EQ(memory::allocated() - before, 8);
}

TEST(Graph, ReleasesItsMemoryAsItIsWalked) {
  const Tensor x = test::noise_leaf({1000}, 1);
  const int64_t before = memory::allocated();
  Tensor y = exp(x);
  for (int i = 0; i < 5; ++i) y = tanh(y);
  const Tensor loss = sum(y);
  y = Tensor();
  EXPECT_EQ(memory::allocated() - before, 6 * 4000 + 4);
  loss.backward();
  EXPECT_EQ(memory::allocated() - before, 4000 + 4) << "the gradient and the loss are left";
}

}  // namespace
}  // namespace binade::autograd
