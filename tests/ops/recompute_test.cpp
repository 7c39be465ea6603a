#include "binade/ops/recompute.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <functional>

#include "binade/amp/autocast.h"
#include "binade/autograd/autograd_meta.h"
#include "binade/autograd/grad_mode.h"
#include "binade/autograd/module_path.h"
#include "binade/base/function_ref.h"
#include "binade/base/random.h"
#include "binade/ops/common.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/elementwise/activation.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/matmul/linear.h"
#include "binade/ops/norm/norm.h"
#include "binade/ops/reduce/reduce.h"
#include "support/tensors.h"

namespace binade {
namespace {

using Block = std::function<Tensor(std::span<const Tensor>)>;
using test::noise_leaf;

// The result of a function and the gradient of every leaf.
struct Outcome {
  Tensor y;
  std::vector<Tensor> gradients;
};

void expect_same_bits(const Outcome& a, const Outcome& b) {
  EXPECT_TRUE(test::same_bits(a.y, b.y));
  ASSERT_EQ(a.gradients.size(), b.gradients.size());
  for (size_t i = 0; i < a.gradients.size(); ++i)
    EXPECT_TRUE(test::same_bits(a.gradients[i], b.gradients[i])) << "gradient " << i;
}

// Runs `program(checkpointed, leaves)` on fresh leaves of the given type.
Outcome run(bool checkpointed, DType dtype,
            FunctionRef<Tensor(bool, std::span<const Tensor>)> program) {
  random::begin_step(3, 1);
  const std::vector<Tensor> leaves = {noise_leaf({5, 8}, 1, dtype), noise_leaf({8, 8}, 2, dtype),
                                      noise_leaf({8}, 3, dtype)};
  const Tensor y = program(checkpointed, leaves);
  y.backward(test::noise(y.shape(), 9, y.dtype()));
  Outcome outcome{y, {}};
  for (const Tensor& leaf : leaves) outcome.gradients.push_back(leaf.grad());
  return outcome;
}

Tensor maybe(bool checkpointed, const Block& f, std::span<const Tensor> inputs) {
  return checkpointed ? checkpoint(f, inputs) : f(inputs);
}

class CheckpointBits : public testing::TestWithParam<DType> {
 protected:
  void expect_equal(FunctionRef<Tensor(bool, std::span<const Tensor>)> program) {
    expect_same_bits(run(false, GetParam(), program), run(true, GetParam(), program));
  }
};

Tensor block(std::span<const Tensor> in) { return tanh(linear(in[0], in[1], in[2])) + in[0]; }

TEST_P(CheckpointBits, AreThoseOfAPlainCall) {
  expect_equal([](bool on, std::span<const Tensor> in) { return maybe(on, block, in); });
}

TEST_P(CheckpointBits, AreThoseOfAPlainCallInAChain) {
  expect_equal([](bool on, std::span<const Tensor> in) {
    Tensor h = in[0];
    for (int i = 0; i < 3; ++i) h = maybe(on, block, std::vector<Tensor>{h, in[1], in[2]});
    return h;
  });
}

// Inputs used several times inside, and outside as well: sums must run in the same order.
TEST_P(CheckpointBits, AreThoseOfAPlainCallWhereGradientsMeet) {
  expect_equal([](bool on, std::span<const Tensor> in) {
    const Tensor h = in[0] * 0.3;
    const Tensor before = exp(h);
    const Tensor y = maybe(
        on, [](std::span<const Tensor> x) { return tanh(x[0]) * x[0] + exp(x[0]) * x[1]; },
        std::vector<Tensor>{h, in[2]});
    return y + before + h * 7.0 + in[2];
  });
}

TEST_P(CheckpointBits, AreThoseOfAPlainCallForAnInputGivenTwice) {
  expect_equal([](bool on, std::span<const Tensor> in) {
    return maybe(
        on, [](std::span<const Tensor> x) { return exp(x[1]) * 0.1 + tanh(x[0]) * x[1]; },
        std::vector<Tensor>{in[0], in[0]});
  });
}

TEST_P(CheckpointBits, AreThoseOfAPlainCallWithDropout) {
  expect_equal([](bool on, std::span<const Tensor> in) {
    const Tensor h = dropout(in[0], 0.25);
    const Tensor y = maybe(
        on,
        [](std::span<const Tensor> x) { return dropout(linear(dropout(x[0], 0.5), x[1]), 0.25); },
        std::vector<Tensor>{h, in[1]});
    return dropout(y, 0.25);
  });
}

TEST_P(CheckpointBits, AreThoseOfAPlainCallUnderAutocast) {
  if (GetParam() == DType::f64) return;
  expect_equal([](bool on, std::span<const Tensor> in) {
    const amp::Autocast cast(DType::bf16);
    return maybe(
        on, [](std::span<const Tensor> x) { return linear(gelu(linear(x[0], x[1], x[2])), x[1]); },
        in);
  });
}

TEST_P(CheckpointBits, AreThoseOfAPlainCallWhenNested) {
  expect_equal([](bool on, std::span<const Tensor> in) {
    const Block inner = [on](std::span<const Tensor> x) { return maybe(on, block, x); };
    return maybe(
        on,
        [inner](std::span<const Tensor> x) {
          return inner(std::vector<Tensor>{inner(x) * 2.0, x[1], x[2]});
        },
        in);
  });
}

TEST_P(CheckpointBits, AreThoseOfAPlainCallForParametersInside) {
  expect_equal([](bool on, std::span<const Tensor> in) {
    const Tensor weight = in[1], bias = in[2];
    return maybe(
        on, [weight, bias](std::span<const Tensor> x) { return linear(gelu(x[0]), weight, bias); },
        std::vector<Tensor>{in[0]});
  });
}

INSTANTIATE_TEST_SUITE_P(Types, CheckpointBits,
                         testing::Values(DType::f32, DType::bf16, DType::f16, DType::f64),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST(Checkpoint, GivesSeveralResults) {
  const auto both = [](std::span<const Tensor> in) {
    return std::vector<Tensor>{exp(in[0]), in[0] * in[1]};
  };
  const auto gradients = [&](bool on, bool first, bool second) {
    const std::vector<Tensor> in = {noise_leaf({7}, 1), noise_leaf({7}, 2)};
    const std::vector<Tensor> y = on ? checkpoint_many(both, in) : both(in);
    Tensor loss = zeros({});
    if (first) loss = loss + sum(y[0]);
    if (second) loss = loss + sum(y[1] * 3.0);
    loss.backward();
    return std::vector<Tensor>{in[0].grad(), in[1].grad()};
  };
  for (const auto& [first, second] :
       {std::pair(true, true), std::pair(true, false), std::pair(false, true)}) {
    const auto plain = gradients(false, first, second), again = gradients(true, first, second);
    EXPECT_TRUE(test::same_bits(plain[0], again[0]));
    if (plain[1].defined()) {
      EXPECT_TRUE(test::same_bits(plain[1], again[1]));
    } else if (again[1].defined()) {
      for (const double value : test::read(again[1])) EXPECT_EQ(value, 0);
    }
  }
}

TEST(Checkpoint, TakesUndefinedInputsAndIndices) {
  const Tensor x = noise_leaf({4}, 1), index = arange(4);
  const Tensor y = checkpoint(
      [](std::span<const Tensor> in) {
        EXPECT_FALSE(in[1].defined());
        EXPECT_EQ(in[2].dtype(), DType::i64);
        return in[0] * cast(in[2], DType::f32);
      },
      {x, Tensor(), index});
  sum(y).backward();
  EXPECT_THAT(test::read(x.grad()), testing::ElementsAre(0, 1, 2, 3));
}

TEST(Checkpoint, KeepsInputsFromBeingChangedUnseen) {
  const Tensor x = noise_leaf({4}, 1), scale = test::noise({4}, 2);
  const Tensor y =
      sum(checkpoint([](std::span<const Tensor> in) { return in[0] * in[1]; }, {x, scale}));
  fill_(scale, 1);
  EXPECT_THAT(test::error_of([&] { y.backward(); }),
              testing::StartsWith("checkpoint: saved tensor [4] f32 cpu"));
}

TEST(Checkpoint, RunsOnceWithoutRecording) {
  int runs = 0;
  const Tensor x = noise_leaf({4}, 1);
  const NoGrad plain;
  const Tensor y = checkpoint([&](std::span<const Tensor> in) { return ++runs, in[0] * 2.0; }, {x});
  EXPECT_EQ(runs, 1);
  EXPECT_FALSE(y.requires_grad());
}

TEST(Checkpoint, SecondRunSeesTheModulePathOfTheFirst) {
  std::vector<std::string> paths;
  const Tensor x = noise_leaf({4}, 1);
  Tensor y;
  {
    const autograd::ModuleScope scope("h.2");
    y = checkpoint(
        [&](std::span<const Tensor> in) {
          return paths.push_back(autograd::module_path()), in[0] * in[0];
        },
        {x});
  }
  sum(y).backward();
  EXPECT_EQ(paths, (std::vector<std::string>{"h.2", "h.2"}));
  EXPECT_EQ(autograd::module_path(), "");
}

// A forward without a policy does not inherit the policy of the guard around its backward.
TEST(Checkpoint, SecondRunSeesThePolicyOfTheFirst) {
  auto policy = std::make_shared<amp::Policy>();
  policy->set(Op::linear, CastClass::f32);
  std::vector<DType> seen;
  const Tensor x = noise_leaf({4, 4}, 1), w = noise_leaf({4, 4}, 2);
  Tensor y;
  {
    const amp::Autocast cast(DType::bf16);
    y = checkpoint(
        [&](std::span<const Tensor> in) {
          const Tensor h = linear(in[0], in[1]);
          return seen.push_back(h.dtype()), h;
        },
        {x, w});
  }
  const amp::Autocast other(DType::f16, {.policy = policy});
  y.backward(test::noise({4, 4}, 3, DType::bf16));
  EXPECT_EQ(seen, (std::vector<DType>{DType::bf16, DType::bf16}));
}

TEST(Checkpoint, DoesNotDisturbTheRandomStreams) {
  const Tensor x = noise_leaf({64}, 1);
  const auto mask_after = [&](bool backward_first) {
    random::begin_step(5, 0);
    const Tensor y =
        sum(checkpoint([](std::span<const Tensor> in) { return dropout(in[0], 0.5); }, {x}));
    if (backward_first) y.backward();
    return dropout(ones({64}), 0.5);
  };
  EXPECT_TRUE(test::same_bits(mask_after(false), mask_after(true)));
}

TEST(Checkpoint, NeedsLessMemory) {
  const auto peak_of = [](bool on) {
    const Tensor x = noise_leaf({256, 64}, 1), w = noise_leaf({64, 64}, 2);
    const auto layers = [w](std::span<const Tensor> in) {
      Tensor h = in[0];
      for (int i = 0; i < 4; ++i) h = gelu(linear(h, w));
      return h;
    };
    const int64_t before = memory::allocated();
    memory::reset_peak();
    Tensor h = x;
    for (int i = 0; i < 4; ++i) h = on ? checkpoint(layers, {h}) : layers(std::vector<Tensor>{h});
    sum(h).backward();
    return memory::peak() - before;
  };
  const int64_t activation = 256 * 64 * 4;
  // 16 layers save two activations each; recompute saves four inputs, and in the backward one block
  // of four layers and gradients.
  EXPECT_GE(peak_of(false), 32 * activation);
  EXPECT_LE(peak_of(true), 16 * activation);
}

TEST(Checkpoint, MovesRunningStatisticsOnce) {
  const Tensor x = noise_leaf({6, 3}, 1), mean = zeros({3}), variance = ones({3}),
               expected = zeros({3}), plain_variance = ones({3});
  batch_norm(x, {}, {}, expected, plain_variance, {.training = true});
  const Tensor y = checkpoint(
      [&](std::span<const Tensor> in) {
        return batch_norm(in[0], {}, {}, mean, variance, {.training = true});
      },
      {x});
  sum(y).backward();
  EXPECT_TRUE(test::same_bits(mean, expected));
  EXPECT_TRUE(test::same_bits(variance, plain_variance));
}

TEST(Checkpoint, TakesAbsentInputsAndRefusesAbsentResults) {
  const Tensor x = test::leaf({1, 2}, {2});
  const auto doubled = [](std::span<const Tensor> in) {
    EXPECT_FALSE(in[1].defined());
    return in[0] * 2.0;
  };
  sum(checkpoint(doubled, {x, Tensor()})).backward();
  EXPECT_THAT(test::read(x.grad()), testing::ElementsAre(2, 2));
  EXPECT_EQ(test::error_of(
                [] { checkpoint([](std::span<const Tensor> in) { return in[0]; }, {Tensor()}); }),
            "checkpoint: result of the function: expected a tensor, found none");
}

// A part that lists its parameters lets their gradients go before earlier parts run again; one that
// does not might still add to any.
TEST(Recompute, ListedParametersAreFinishedAsTheirPartsAre) {
  for (const bool listed : {true, false}) {
    std::vector<std::string> events;
    const Tensor weights[] = {noise_leaf({4}, 1), noise_leaf({4}, 2)};
    Tensor x = noise_leaf({4}, 3);
    for (int i = 0; i < 2; ++i) {
      const Tensor& weight = weights[i];
      autograd::on_gradient(weight, [&events, i](const Tensor&) {
        events.push_back("gradient " + std::to_string(i));
        return Tensor();
      });
      const auto part = [&events, weight, i](std::span<const Tensor> in) {
        events.push_back("part " + std::to_string(i));
        return std::vector<Tensor>{in[0] * weight + weight};
      };
      const Tensor inputs[] = {x};
      const std::span<const Tensor> parameters(&weight, listed ? 1 : 0);
      x = checkpoint_many(part, inputs, parameters)[0];
    }
    events.clear();
    sum(x).backward();
    EXPECT_EQ(events,
              listed ? (std::vector<std::string>{"part 1", "gradient 1", "part 0", "gradient 0"})
                     : (std::vector<std::string>{"part 1", "part 0", "gradient 1", "gradient 0"}));
  }
}

// Only GPUs compute results again; a recomputed part follows the choice of its first run.
TEST(Recompute, KeepResultsHoldsWithinItsScopeAndInRecomputedParts) {
  EXPECT_TRUE(ops::recomputes_results(Device::cuda()));
  EXPECT_FALSE(ops::recomputes_results(Device::cpu()));
  std::vector<bool> seen;
  const auto part = [&seen](std::span<const Tensor> in) {
    seen.push_back(ops::recomputes_results(Device::cuda()));
    return in[0] * in[0];
  };
  Tensor y;
  {
    const KeepResults keep;
    EXPECT_FALSE(ops::recomputes_results(Device::cuda()));
    {
      const KeepResults again(false);
      EXPECT_TRUE(ops::recomputes_results(Device::cuda()));
    }
    y = checkpoint(part, {noise_leaf({4}, 1)});
  }
  EXPECT_TRUE(ops::recomputes_results(Device::cuda()));
  sum(y).backward();
  EXPECT_EQ(seen, (std::vector<bool>{false, false}));
}

}  // namespace
}  // namespace binade
