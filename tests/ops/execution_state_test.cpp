#include "binade/base/execution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/amp/autocast.h"
#include "binade/amp/recipe/state.h"
#include "binade/autograd/autograd_meta.h"
#include "binade/autograd/engine.h"
#include "binade/autograd/grad_mode.h"
#include "binade/autograd/module_path.h"
#include "binade/autograd/op_observer.h"
#include "binade/autograd/recompute.h"
#include "binade/backend/determinism.h"
#include "binade/base/random.h"
#include "binade/ops/common.h"
#include "binade/ops/create/create.h"
#include "binade/ops/custom.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/recompute.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/tensor/memory.h"
#include "support/tensors.h"

// Who runs in which execution state: recompute and the backward of a custom op in that of their
// forward, hooks in that of backward().
namespace binade {
namespace {

using test::leaf;
using testing::ElementsAre;

// A setting that nothing but these tests knows of: it goes where every new one would go.
constinit execution::Slot<int> new_setting(execution::Belongs::to_work);

// Every ambient value that ops can ask for.
struct Ambient {
  int new_setting = *binade::new_setting;
  bool grad = autograd::grad_enabled();
  bool autocast = amp::autocast_state().enabled;
  DType dtype = amp::autocast_state().dtype;
  const amp::Policy* policy = amp::autocast_state().policy.get();
  amp::MatmulPrecision precision = amp::matmul_precision();
  const amp::RecipeState* recipe = &amp::recipe_state();
  std::string path = autograd::module_path();
  uint64_t seed = random::context().seed;
  uint32_t next_stream = random::context().next_stream;
  bool deterministic = backend::deterministic();
  memory::Category category = memory::current_category();
  bool recomputes_results = ops::recomputes_results(Device::cuda());

  bool operator==(const Ambient&) const = default;
};

// Sets every value that belongs to work to something other than its initial value.
class Settings {
 private:
  Restore<int> new_setting_{*new_setting, 41};
  amp::Autocast autocast_{DType::f16, {.policy = std::make_shared<amp::Policy>()}};
  amp::MatmulPrecisionGuard precision_{amp::MatmulPrecision::high};
  amp::QuantizedAutocast recipe_{amp::recipes::delayed()};
  autograd::ModuleScope path_{"h.2"};
  Restore<random::Context> random_{random::context(), {3, 1, 17}};
  backend::AnyOrder any_order_{true};
  memory::CategoryGuard category_{memory::Category::logits};
  KeepResults keep_;
};

TEST(ExecutionState, ARecomputeRunsInThatOfItsForward) {
  std::vector<Ambient> seen;
  const Ambient outside;
  const Tensor x = leaf({1, 2}, {2});
  Tensor y;
  {
    const Settings settings;
    y = checkpoint(
        [&](std::span<const Tensor> in) {
          seen.emplace_back();
          return in[0] * in[0];
        },
        {x});
  }
  sum(y).backward();
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_FALSE(seen[0].grad);
  EXPECT_TRUE(seen[1].grad);
  seen[0].grad = true;
  EXPECT_TRUE(seen[1] == seen[0]);
  EXPECT_EQ(seen[1].new_setting, 41);
  EXPECT_EQ(seen[1].next_stream, 17u);
  EXPECT_EQ(seen[1].category, memory::Category::logits);
  EXPECT_FALSE(seen[1].deterministic);
  EXPECT_TRUE(Ambient() == outside);
}

// As a plain call has them, whatever surrounds the backward.
TEST(ExecutionState, ARecomputeTakesNothingFromTheSettingsOfTheBackward) {
  std::vector<Ambient> seen;
  const Tensor x = leaf({1, 2}, {2});
  const Tensor y = sum(checkpoint(
      [&](std::span<const Tensor> in) {
        seen.emplace_back();
        return in[0] * in[0];
      },
      {x}));
  const Settings settings;
  y.backward();
  ASSERT_EQ(seen.size(), 2u);
  seen[0].grad = true;
  EXPECT_TRUE(seen[1] == seen[0]);
}

// An observer of the forward may be gone; the one of the backward sees the second run.
TEST(ExecutionState, ARecomputeIsObservedByTheObserverOfItsBackward) {
  struct Count : autograd::OpObserver {
    void forward(Op, std::span<const Tensor>, std::span<const Tensor>,
                 std::span<const Tensor>) override {
      ++forwards;
    }
    void after_backward(const autograd::Node&, std::span<const Tensor>) override {}
    int forwards = 0;
  };
  const Tensor x = leaf({1, 2}, {2});
  Tensor y;
  {
    Count first;
    const autograd::OpObserverScope observed(&first);
    y = sum(checkpoint([](std::span<const Tensor> in) { return exp(in[0]); }, {x}));
  }
  Count second;
  const autograd::OpObserverScope observed(&second);
  y.backward();
  EXPECT_EQ(second.forwards, 1);
}

TEST(ExecutionState, TheBackwardOfACustomOpRunsInThatOfItsForward) {
  std::vector<Ambient> seen;
  const CustomOp op{
      .name = "observed",
      .forward =
          [&](std::span<const Tensor> in) {
            seen.emplace_back();
            return in[0] * 2.0;
          },
      .backward =
          [&](const Tensor& dy, std::span<const Tensor>, const Tensor&, autograd::GradSlots dx) {
            seen.emplace_back();
            random::next_key();
            dx[0].add(dy * 2.0);
          }};
  const Tensor x = leaf({1, 2}, {2});
  Tensor y;
  {
    const Settings settings;
    y = custom(op, {x});
  }
  const Restore<random::Context> random(random::context(), {5, 2, 30});
  sum(y).backward();
  ASSERT_EQ(seen.size(), 2u);
  // What it draws is new.
  EXPECT_EQ(seen[1].next_stream, 30u);
  EXPECT_EQ(random::context().next_stream, 31u);
  seen[1].seed = seen[0].seed;
  seen[1].next_stream = seen[0].next_stream;
  EXPECT_TRUE(seen[1] == seen[0]);
  EXPECT_EQ(seen[1].new_setting, 41);
  EXPECT_EQ(seen[1].path, "h.2");
}

// Casts that a repeated forward or a custom backward caches end with it.
TEST(ExecutionState, NoCachedCastOutlivesTheWorkThatMadeIt) {
  const Tensor x = leaf({1, 2}, {2}), w = leaf({3, 4}, {2});
  Tensor y;
  {
    const amp::Autocast cast(DType::bf16);
    y = checkpoint(
        [w](std::span<const Tensor> in) { return in[0] * amp::cast_input(w, DType::bf16); }, {x});
  }
  y.backward(ones({2}, y.dtype()));
  EXPECT_EQ(amp::cast_cache_bytes(), 0);
  execution::Thread([&] {
    const Tensor v = leaf({3, 4}, {2});
    amp::cast_input(v, DType::bf16);
    EXPECT_EQ(amp::cast_cache_bytes(), 0);
  }).join();
}

// Hooks of leaves and of results, inside of recomputed parts too.
TEST(ExecutionState, HooksRunInThatOfTheBackwardCall) {
  std::vector<Ambient> seen;
  std::vector<bool> recomputing;
  const auto hook = [&](const Tensor&) {
    seen.emplace_back();
    recomputing.push_back(autograd::recomputing());
    return Tensor();
  };
  const Tensor x = leaf({1, 2}, {2}), w = leaf({3, 4}, {2});
  autograd::on_gradient(w, hook);
  Tensor y;
  {
    const Restore<int> other(*new_setting, 1);
    const amp::Autocast cast(DType::bf16);
    const autograd::ModuleScope path("h.9");
    y = sum(checkpoint(
        [w, hook](std::span<const Tensor> in) {
          const Tensor h = in[0] * w;
          if (autograd::grad_enabled()) autograd::on_gradient(h, hook);
          return h * h;
        },
        {x}));
    autograd::on_gradient(y, hook);
  }
  const Settings settings;
  Ambient expected;
  expected.grad = false;
  y.backward();
  ASSERT_EQ(seen.size(), 3u);
  for (const Ambient& one : seen) EXPECT_TRUE(one == expected);
  EXPECT_THAT(recomputing, ElementsAre(false, false, false));
}

}  // namespace
}  // namespace binade
