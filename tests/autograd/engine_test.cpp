#include "binade/autograd/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/autograd/grad_mode.h"
#include "binade/ops/custom.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/matmul/matmul.h"
#include "binade/ops/norm/norm.h"
#include "binade/ops/recompute.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/shape.h"
#include "support/tensors.h"

namespace binade::autograd {
namespace {

using test::leaf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Backward, FollowsTheChainRule) {
  const Tensor x = leaf({1, 2, 3}, {3});
  sum(square(x) * x).backward();  // 3 x^2
  EXPECT_THAT(test::read(x.grad()), ElementsAre(3, 12, 27));
}

TEST(Backward, AddsUpWhatIsUsedTwice) {
  const Tensor x = leaf({3}, {1});
  (x * x + x).backward();
  EXPECT_THAT(test::read(x.grad()), ElementsAre(7));
  const Tensor shared = leaf({2}, {1});
  const Tensor y = exp(shared);
  (y * y + y * 3.0).backward();  // 2 e^4 + 3 e^2
  EXPECT_NEAR(test::read(shared.grad())[0], 2 * std::exp(4.0) + 3 * std::exp(2.0), 1e-4);
}

TEST(Backward, AccumulatesOverCalls) {
  const Tensor x = leaf({1, 2}, {2});
  for (int i = 1; i <= 3; ++i) {
    sum(x * 2.0).backward();
    EXPECT_THAT(test::read(x.grad()), ElementsAre(2 * i, 2 * i));
  }
}

TEST(Backward, StartsFromAGivenGradient) {
  const Tensor x = leaf({1, 2}, {2});
  (x * 2.0).backward(tensor({10, 100}, {2}));
  EXPECT_THAT(test::read(x.grad()), ElementsAre(20, 200));
}

TEST(Backward, StartsAtALeaf) {
  const Tensor x = leaf({1, 2}, {2});
  x.backward(tensor({5, 6}, {2}));
  EXPECT_THAT(test::read(x.grad()), ElementsAre(5, 6));
}

TEST(Backward, StartsFromSeveralRootsAtOnce) {
  const Tensor x = leaf({1, 2}, {2});
  const Tensor shared = x * 2.0;
  const std::vector<Tensor> roots = {shared * 3.0, shared + 1.0, shared * 100.0};
  const std::vector<Tensor> seeds = {ones({2}), ones({2}), Tensor()};
  run_backward(roots, seeds);
  EXPECT_THAT(test::read(x.grad()), ElementsAre(8, 8)) << "the third root has no seed";
}

// A root without a gradient is passed over, and the graph of one without a seed is not walked.
TEST(Backward, WalksOnlyRootsWithSeedsAndGraphs) {
  const Tensor x = leaf({1, 2}, {2}), other = leaf({3, 4}, {2});
  const std::vector<Tensor> roots = {ones({2}), exp(other), x * x};
  run_backward(roots, std::vector<Tensor>{ones({2}), Tensor(), ones({2})});
  EXPECT_THAT(test::read(x.grad()), ElementsAre(2, 4));
  EXPECT_FALSE(other.grad().defined());
  sum(roots[1]).backward();
  EXPECT_TRUE(other.grad().defined());
}

TEST(Backward, RefusesWhatHasNoGraph) {
  EXPECT_EQ(
      test::error_of([] { tensor({1}, {1}).backward(); }),
      "backward: tensor: expected one that requires a gradient, found [1] f32 cpu without a graph; "
      "set_requires_grad() on a leaf before the forward, outside of NoGrad");
  const Tensor x = leaf({1, 2}, {2});
  EXPECT_THAT(test::error_of([&] { (x * x).backward(); }),
              HasSubstr("backward: tensor: expected one element, found [2] f32 cpu"));
  EXPECT_THAT(test::error_of([&] { (x * x).backward(ones({3})); }),
              HasSubstr("backward: seed: expected [2], found [3] f32 cpu"));
}

TEST(Backward, TwiceIsAnErrorUnlessRetained) {
  const Tensor x = leaf({3}, {1});
  const Tensor y = x * x;
  y.backward({}, RetainGraph::yes);
  y.backward();
  EXPECT_THAT(test::read(x.grad()), ElementsAre(12));
  EXPECT_EQ(test::error_of([&] { y.backward(); }),
            "backward: mul: expected a graph not walked before, found one whose saved tensors were "
            "released; "
            "call backward once, or pass RetainGraph::yes to the first call");
  EXPECT_THAT(test::read(x.grad()), ElementsAre(12));
  // The error leaves no state: other graphs with the same leaf work, hooks included.
  int calls = 0;
  on_gradient(x, [&](const Tensor&) { return ++calls, Tensor(); });
  (x * x).backward();
  EXPECT_THAT(test::read(x.grad()), ElementsAre(18));
  EXPECT_EQ(calls, 1);
}

TEST(Backward, SharedPartsOfTwoLossesNeedRetain) {
  const Tensor x = leaf({2}, {1});
  const Tensor shared = exp(x);
  const Tensor first = shared * 2.0, second = shared * 3.0;
  first.backward();
  EXPECT_THAT(test::error_of([&] { second.backward(); }),
              HasSubstr("backward: exp: expected a graph not walked before"));
}

TEST(Backward, RunsWithoutRecording) {
  const Tensor x = leaf({2}, {1});
  bool recorded = true;
  on_gradient(x, [&](const Tensor& g) {
    return recorded = grad_enabled() || (g * g).requires_grad(), Tensor();
  });
  (x * x).backward();
  EXPECT_FALSE(recorded);
  EXPECT_FALSE(x.grad().requires_grad());
  EXPECT_TRUE(grad_enabled());
}

TEST(Backward, LeavesUnreachedLeavesAlone) {
  const Tensor x = leaf({2}, {1}), unused = leaf({3}, {1});
  const Tensor aside = unused * x;  // never part of the loss
  (x * 5.0).backward();
  EXPECT_TRUE(x.grad().defined());
  EXPECT_FALSE(unused.grad().defined());
}

TEST(Backward, GivesTheSameBitsEveryTime) {
  const auto gradients = [] {
    const Tensor x = test::noise_leaf({37, 19}, 1, DType::bf16),
                 w = test::noise_leaf({19, 11}, 2, DType::bf16);
    Tensor h = x;
    Tensor total = zeros({}, DType::bf16);
    for (int i = 0; i < 4; ++i) {
      h = tanh(h) + h * 0.5;
      total = total + sum(matmul(h, w));
    }
    total.backward();
    return std::vector<Tensor>{x.grad(), w.grad()};
  };
  const auto first = gradients();
  for (int i = 0; i < 3; ++i) {
    const auto again = gradients();
    for (size_t j = 0; j < first.size(); ++j) EXPECT_TRUE(test::same_bits(first[j], again[j]));
  }
}

// Newest first: the order in which leaves finish is the reverse of their first use.
TEST(Backward, FinishesLeavesInAFixedOrder) {
  const Tensor a = leaf({1}, {1}), b = leaf({2}, {1}), c = leaf({3}, {1});
  std::string order;
  on_gradient(a, [&](const Tensor&) { return order += 'a', Tensor(); });
  on_gradient(b, [&](const Tensor&) { return order += 'b', Tensor(); });
  on_gradient(c, [&](const Tensor&) { return order += 'c', Tensor(); });
  const Tensor y = exp(a);
  (y * b + c).backward();
  EXPECT_EQ(order, "cba");
}

TEST(Backward, WalksAndFreesLongChainsWithoutRecursion) {
  constexpr int length = 200'000;
  const Tensor x = leaf({1}, {1});
  {
    Tensor y = x;
    for (int i = 0; i < length; ++i) y = y + 0.0;
    y.backward();
  }
  EXPECT_THAT(test::read(x.grad()), ElementsAre(1));
  Tensor dropped = x;
  for (int i = 0; i < length; ++i) dropped = dropped * 1.0;
  dropped = Tensor();  // never walked, only destroyed
}

TEST(Backward, FreesGraphsThatForkAndJoin) {
  const Tensor x = leaf({1}, {1});
  Tensor y = x;
  for (int i = 0; i < 20'000; ++i) y = y * 0.5 + y * 0.5;
  y.backward();
  EXPECT_THAT(test::read(x.grad()), ElementsAre(1));
}

TEST(Hooks, OfALeafSeeItsWholeGradientOnce) {
  const Tensor x = leaf({1, 2}, {2});
  int calls = 0;
  on_gradient(x, [&](const Tensor& g) {
    ++calls;
    EXPECT_THAT(test::read(g), ElementsAre(6, 6));
    return Tensor();
  });
  sum(x * 1.0 + x * 2.0 + x * 3.0).backward();
  EXPECT_EQ(calls, 1);
}

TEST(Hooks, OfALeafSeeWhatABackwardAddsToItsGradient) {
  const Tensor x = leaf({1, 2}, {2});
  sum(x).backward();
  const Tensor alias = x.grad();
  std::vector<double> seen;
  on_gradient(x, [&](const Tensor& g) { return seen = test::read(g), g * 10.0; });
  int finished = 0;
  after_gradient(x, [&] { finished += test::read(x.grad())[0] == 21; });
  sum(x * 2.0).backward();
  EXPECT_THAT(seen, ElementsAre(2, 2));
  EXPECT_THAT(test::read(x.grad()), ElementsAre(21, 21));
  EXPECT_THAT(test::read(alias), ElementsAre(21, 21)) << "it adds in place";
  EXPECT_EQ(finished, 1) << "with the sum";
  x.backward(ones({2}));
  EXPECT_THAT(seen, ElementsAre(1, 1));
  EXPECT_THAT(test::read(x.grad()), ElementsAre(31, 31));
}

TEST(Hooks, OfALeafSeeTheSameWithCheckpoints) {
  const Tensor w = leaf({2}, {1}), x = leaf({3}, {1});
  std::vector<double> seen;
  on_gradient(w, [&](const Tensor& g) { return seen = test::read(g), Tensor(); });
  const auto block = [w](std::span<const Tensor> in) { return in[0] * w; };
  for (int pass = 1; pass <= 2; ++pass) {
    const Tensor first = checkpoint(block, {x});
    (checkpoint(block, {first}) + w).backward();
    EXPECT_THAT(seen, ElementsAre(13));
    EXPECT_THAT(test::read(w.grad()), ElementsAre(13 * pass));
  }
}

TEST(Hooks, OfALeafLeaveItsGradientAfterAnError) {
  const Tensor x = leaf({1, 2}, {2});
  sum(x).backward();
  on_gradient(x, [](const Tensor&) { return ones({3}); });
  EXPECT_NE(test::error_of([&] { sum(x).backward(); }), "");
  EXPECT_THAT(test::read(x.grad()), ElementsAre(1, 1));
}

TEST(Hooks, OfARootThatIsALeafFire) {
  const Tensor x = leaf({1, 2}, {2});
  int calls = 0;
  on_gradient(x, [&](const Tensor&) { return ++calls, Tensor(); });
  x.backward(ones({2}));
  EXPECT_EQ(calls, 1);
  const std::vector<Tensor> roots = {x, x * 2.0}, seeds = {ones({2}), ones({2})};
  run_backward(roots, seeds);
  EXPECT_EQ(calls, 2) << "after both contributions";
  EXPECT_THAT(test::read(x.grad()), ElementsAre(4, 4));
}

TEST(Hooks, MayReplaceTheGradient) {
  const Tensor x = leaf({1, 2}, {2});
  const Tensor y = x * 1.0;
  on_gradient(y, [](const Tensor& g) { return g * 10.0; });
  on_gradient(y, [](const Tensor& g) { return g + 1.0; });
  on_gradient(x, [](const Tensor& g) { return neg(g); });
  sum(y).backward();
  EXPECT_THAT(test::read(x.grad()), ElementsAre(-11, -11));
  EXPECT_EQ(x.grad().dtype(), DType::f32);
  // A hook may return another type; the op below gets its own type.
  const Tensor low = test::noise_leaf({3, 4}, 1, DType::bf16);
  const Tensor product = matmul(low, test::noise({4, 2}, 2, DType::bf16));
  on_gradient(product, [](const Tensor& g) { return cast(g, DType::f32) * 2.0; });
  sum(product).backward();
  EXPECT_TRUE(low.grad().defined());
}

TEST(Hooks, OfAResultSeeTheSumOfItsUses) {
  const Tensor x = leaf({1}, {1});
  const Tensor y = x * 2.0;
  std::vector<double> seen;
  on_gradient(y, [&](const Tensor& g) { return seen = test::read(g), Tensor(); });
  (y * 3.0 + y * 4.0).backward();
  EXPECT_THAT(seen, ElementsAre(7));
}

TEST(Hooks, FireOnceWithCheckpointsToo) {
  const Tensor w = leaf({2}, {1}), x = leaf({3}, {1});
  int calls = 0;
  std::vector<double> seen;
  on_gradient(w, [&](const Tensor& g) {
    ++calls;
    seen = test::read(g);
    return Tensor();
  });
  const auto block = [w](std::span<const Tensor> in) { return in[0] * w; };
  const Tensor first = checkpoint(block, {x});       // x w
  const Tensor second = checkpoint(block, {first});  // x w^2
  (second + w).backward();                           // w is used outside too
  EXPECT_EQ(calls, 1);
  EXPECT_THAT(seen, ElementsAre(13));  // 2 x w + 1
  EXPECT_THAT(test::read(x.grad()), ElementsAre(4));
}

TEST(Hooks, OfCheckpointedInputsAndResultsFireOnce) {
  const Tensor x = leaf({3}, {1});
  const Tensor h = x * 1.0;
  std::string order;
  on_gradient(x, [&](const Tensor&) { return order += 'x', Tensor(); });
  on_gradient(h, [&](const Tensor& g) {
    order += 'h';
    EXPECT_THAT(test::read(g), ElementsAre(6));
    return Tensor();
  });
  const Tensor y = checkpoint([](std::span<const Tensor> in) { return in[0] * in[0]; }, {h});
  on_gradient(y, [&](const Tensor&) { return order += 'y', Tensor(); });
  y.backward();
  EXPECT_EQ(order, "yhx");
}

// A leaf's hook fires as soon as nothing can add to its gradient, with a recompute as without one.
TEST(Hooks, FireBeforeTheRestOfTheWalk) {
  for (const bool recompute : {false, true}) {
    const Tensor c = leaf({1}, {1}), a = leaf({2}, {1});
    std::string order;
    const auto note = [&order](const Tensor& x, char name) {
      on_gradient(x, [&order, name](const Tensor&) { return order += name, Tensor(); });
    };
    const Tensor z = exp(c);
    note(c, 'c');
    note(a, 'a');
    note(z, 'z');
    const auto twice = [](std::span<const Tensor> in) { return in[0] * 2.0; };
    const Tensor h[] = {z * a};
    (recompute ? checkpoint(twice, h) : twice(h)).backward();
    EXPECT_EQ(order, "azc") << recompute;
  }
}

TEST(Hooks, NeedATensorWithAGradientAndReturnOneThatFits) {
  EXPECT_THAT(
      test::error_of([] { on_gradient(tensor({1}, {1}), [](const Tensor&) { return Tensor(); }); }),
      HasSubstr("on_gradient: tensor: expected one that requires a gradient"));
  for (const bool interior : {true, false}) {
    const Tensor x = leaf({1, 2}, {2});
    const Tensor y = x * 1.0;
    on_gradient(interior ? y : x, [](const Tensor&) { return ones({3}); });
    EXPECT_THAT(test::error_of([&] { sum(y).backward(); }),
                HasSubstr("on_gradient: hook's result: expected [2] f32 cpu, found [3] f32 cpu"));
  }
}

// An op whose backward fails while `broken` is true.
Tensor fragile(const Tensor& x, const bool& broken) {
  const CustomOp op{
      .name = "fragile",
      .cast = CastClass::as_is,
      .forward = [](std::span<const Tensor> in) { return in[0] * 2.0; },
      .backward =
          [&broken](const Tensor& dy, std::span<const Tensor>, const Tensor&, GradSlots dx) {
            if (broken) fail("fragile", {.argument = "backward"});
            dx[0].add(dy * 2.0);
          }};
  return custom(op, {x});
}

TEST(Errors, InTheMiddleOfAWalkLeaveARetainedGraphUsable) {
  const Tensor x = leaf({3}, {1});
  int calls = 0;
  on_gradient(x, [&](const Tensor&) { return ++calls, Tensor(); });
  bool broken = true;
  const Tensor y = exp(fragile(x, broken)) * x;
  EXPECT_EQ(test::error_of([&] { y.backward({}, RetainGraph::yes); }), "fragile: backward");
  EXPECT_EQ(running_op(), "backward") << "no op runs any more";
  EXPECT_EQ(calls, 0);
  broken = false;
  x.zero_grad();
  y.backward();
  const double e = std::exp(6.0);
  EXPECT_NEAR(test::read(x.grad())[0], e + 2 * 3 * e, 1e-6 * 7 * e);
  EXPECT_EQ(calls, 1);
}

TEST(Errors, InsideARecomputeLeaveTheEngineUsable) {
  const Tensor x = leaf({3}, {1}), w = leaf({2}, {1});
  int calls = 0;
  on_gradient(w, [&](const Tensor&) { return ++calls, Tensor(); });
  bool broken = true;
  const auto body = [&](std::span<const Tensor> in) { return fragile(in[0] * w, broken); };
  const Tensor y = checkpoint(body, {x}) + w;
  EXPECT_EQ(test::error_of([&] { y.backward(); }), "fragile: backward");
  broken = false;
  x.zero_grad();
  w.zero_grad();
  (checkpoint(body, {x}) + w).backward();
  EXPECT_THAT(test::read(x.grad()), ElementsAre(4));
  EXPECT_THAT(test::read(w.grad()), ElementsAre(7));
  EXPECT_EQ(calls, 1);
}

TEST(Errors, InAForwardThatIsRunAgainPassThrough) {
  const Tensor x = leaf({3}, {1});
  int runs = 0;
  const Tensor y = checkpoint(
      [&](std::span<const Tensor> in) {
        if (++runs == 2) fail("body", {.argument = "second run"});
        return in[0] * in[0];
      },
      {x});
  EXPECT_EQ(test::error_of([&] { y.backward(); }), "body: second run");
  x.zero_grad();
  (x * x).backward();
  EXPECT_THAT(test::read(x.grad()), ElementsAre(6));
}

TEST(Backward, WorksOnTheMetaDevice) {
  const Tensor x = test::noise_leaf({4, 3}, 1, DType::bf16, Device::meta());
  const Tensor y = sum(exp(x) * x);
  y.backward();
  EXPECT_EQ(describe(x.grad()), "[4, 3] f32 meta");
}

}  // namespace
}  // namespace binade::autograd
