#include "binade/optim/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>

#include "binade/autograd/grad_mode.h"
#include "binade/io/safetensors.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/optim/adam.h"
#include "binade/optim/sgd.h"
#include "io/temporary_folder.h"
#include "support/error_of.h"

namespace binade::optim {
namespace {

using ::testing::AllOf;
using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Ne;

Tensor leaf(const Shape& shape, double value, DType dtype = DType::f32) {
  Tensor parameter = full(shape, value, dtype);
  return parameter.set_requires_grad();
}

void give(const Tensor& parameter, double gradient) {
  parameter.set_grad(full(parameter.shape(), gradient));
}

// Gradients that look like a run's: a function of step and parameter.
void give_random(const std::vector<Tensor>& parameters, uint64_t step) {
  for (size_t i = 0; i < parameters.size(); ++i)
    parameters[i].set_grad(randn(parameters[i].shape(), {step, i}));
}

// --- masters ---

// Under half a unit in the last place of a bf16 weight of 1 an update vanishes without a master.
TEST(Masters, KeepUpdatesThatBf16Loses) {
  constexpr double update = 0x1p-12;
  const Tensor with = leaf({8}, 1, DType::bf16), without = leaf({8}, 1, DType::bf16);
  SGD keeps({with}, {.lr = update}), loses({without}, {.lr = update, .master = {.masters = false}});
  for (int step = 0; step < 16; ++step) {
    give(with, 1);
    give(without, 1);
    keeps.step();
    loses.step();
  }
  EXPECT_THAT(to_vector(with), Each(1 - 16 * update));
  EXPECT_THAT(to_vector(without), Each(1.0));
  EXPECT_EQ(keeps.master_of(with).dtype(), DType::f32);
  EXPECT_TRUE(loses.master_of(without).same_as(without));
}

TEST(Masters, ParametersAreRoundedFromThem) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Tensor start = randn({1000}, {3, 4});
    Tensor low = cast(start, dtype);
    low.set_requires_grad();
    AdamW optimizer({low}, {.lr = 1e-3, .weight_decay = 0.1});
    for (uint64_t step = 0; step < 5; ++step) {
      give_random({low}, step);
      optimizer.step();
      EXPECT_EQ(to_vector(low), to_vector(cast(optimizer.master_of(low), dtype)));
    }
    EXPECT_NE(to_vector(low), to_vector(optimizer.master_of(low)));
  }
}

// Weights loaded after the optimizer was made: the next step starts from these.
TEST(Masters, FollowAParameterThatIsWritten) {
  using Write = void (*)(const Tensor&);
  const Write writes[] = {
      [](const Tensor& x) { fill_(x, 3); }, [](const Tensor& x) { copy_(x, full({4}, 3)); },
      [](const Tensor& x) { std::fill_n(x.mutable_data<bf16>(), 4, bf16(3.0f)); }};
  for (const Write write : writes) {
    const Tensor low = leaf({4}, 1, DType::bf16);
    SGD optimizer({low}, {.lr = 0x1p-12});
    give(low, 1);
    optimizer.step();
    {
      const NoGrad no_grad;
      write(low);
    }
    EXPECT_THAT(to_vector(optimizer.state_dict().at("0.master")), Each(3.0));
    optimizer.step();
    EXPECT_THAT(to_vector(low), Each(3.0));
    EXPECT_THAT(to_vector(optimizer.master_of(low)), Each(3 - 0x1p-12));
  }
}

// A parameter that is written with the value it has keeps its master weight's lower bits, in
// whatever order a model and its optimizer are loaded.
TEST(Masters, KeepTheirLowerBitsIfTheParameterIsTheSame) {
  const Tensor low = leaf({4}, 1, DType::bf16);
  SGD optimizer({low}, {.lr = 0x1p-12});
  give(low, 1);
  optimizer.step();
  {
    const NoGrad no_grad;
    copy_(low, clone(low));
    low.mutable_data<bf16>()[2] = bf16(5.0f);
  }
  optimizer.step();
  EXPECT_THAT(to_vector(optimizer.master_of(low)),
              ::testing::ElementsAre(1 - 0x1p-11, 1 - 0x1p-11, 5 - 0x1p-12, 1 - 0x1p-11));
}

TEST(Decay, OfZeroLeavesAnInfiniteWeightAlone) {
  const double infinity = std::numeric_limits<double>::infinity();
  const auto stepped = [&](auto make) {
    const Tensor weight = leaf({5}, infinity);
    auto optimizer = make(weight);
    for (int i = 0; i < 2; ++i) {
      give(weight, 1);
      optimizer->step();
    }
    return to_vector(weight);
  };
  const auto sgd = [](double momentum, bool nesterov) {
    return [=](const Tensor& weight) {
      return std::make_unique<SGD>(std::vector{weight},
                                   SgdOptions{.momentum = momentum, .nesterov = nesterov});
    };
  };
  EXPECT_THAT(stepped(sgd(0, false)), Each(infinity));
  EXPECT_THAT(stepped(sgd(0.9, false)), Each(infinity));
  EXPECT_THAT(stepped(sgd(0.9, true)), Each(infinity));
  EXPECT_THAT(stepped([](const Tensor& w) { return std::make_unique<Adam>(std::vector{w}); }),
              Each(infinity));
  EXPECT_THAT(stepped([](const Tensor& w) { return std::make_unique<AdamW>(std::vector{w}); }),
              Each(infinity));
}

// PyTorch's defaults, however the other options are given.
TEST(Decay, HasOneDefaultPerOptimizer) {
  const auto after_one_step = [](auto make) {
    const Tensor weight = leaf({1}, 100);
    auto optimizer = make(weight);
    give(weight, 0);
    optimizer->step();
    return to_vector(weight)[0];
  };
  const double decayed = 100 * (1 - 0.5 * 0.01);
  EXPECT_NEAR(after_one_step([](const Tensor& w) {
                auto adam = std::make_unique<AdamW>(std::vector{w});
                adam->set_lr(0.5);
                return adam;
              }),
              decayed, 1e-5);
  EXPECT_NEAR(after_one_step([](const Tensor& w) {
                return std::make_unique<AdamW>(std::vector{w}, AdamOptions{.lr = 0.5});
              }),
              decayed, 1e-5);
  EXPECT_NEAR(after_one_step([](const Tensor& w) {
                return std::make_unique<AdamW>(
                    std::vector<AdamGroup>{{.parameters = {w}, .options = {.lr = 0.5}}});
              }),
              decayed, 1e-5);
  EXPECT_EQ(after_one_step([](const Tensor& w) {
              return std::make_unique<AdamW>(std::vector{w},
                                             AdamOptions{.lr = 0.5, .weight_decay = 0});
            }),
            100);
  EXPECT_EQ(after_one_step([](const Tensor& w) {
              return std::make_unique<Adam>(std::vector{w}, AdamOptions{.lr = 0.5});
            }),
            100);
}

TEST(Masters, FollowTheF32RunExactly) {
  Tensor low = cast(randn({257}, {3, 4}), DType::bf16);
  Tensor wide = cast(low, DType::f32);
  low.set_requires_grad();
  wide.set_requires_grad();
  Adam a({low}, {.lr = 1e-2}), b({wide}, {.lr = 1e-2});
  for (uint64_t step = 0; step < 10; ++step) {
    give_random({low}, step);
    give_random({wide}, step);
    a.step();
    b.step();
  }
  EXPECT_EQ(to_vector(a.master_of(low)), to_vector(wide));
}

TEST(Masters, StochasticRoundingIsUnbiased) {
  constexpr int64_t count = 1 << 16;
  constexpr double update = 0x1p-11;  // an eighth of the step of bf16 below 1
  constexpr double step_below_one = 0x1p-8;
  const Tensor weight = leaf({count}, 1, DType::bf16);
  SGD optimizer({weight}, {.lr = update,
                           .master = {.masters = false, .stochastic_rounding = true, .seed = 5}});
  give(weight, 1);
  optimizer.step();
  const std::vector<double> values = to_vector(weight);
  EXPECT_THAT(values, Each(::testing::AnyOf(1.0, 1 - step_below_one)));
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  const double p = update / step_below_one;
  const double deviation = step_below_one * std::sqrt(p * (1 - p) / count);
  EXPECT_NEAR(mean, 1 - update, 5 * deviation);
}

TEST(Masters, StochasticRoundingIsAFunctionOfSeedAndStep) {
  const auto run = [](uint64_t seed, int steps) {
    const Tensor weight = leaf({500}, 1, DType::bf16);
    SGD optimizer(
        {weight},
        {.lr = 0x1p-10, .master = {.masters = false, .stochastic_rounding = true, .seed = seed}});
    std::vector<double> change;
    for (int step = 0; step < steps; ++step) {
      const std::vector<double> before = to_vector(weight);
      give(weight, 1);
      optimizer.step();
      change = to_vector(weight);
      for (size_t i = 0; i < change.size(); ++i) change[i] -= before[i];
    }
    return change;
  };
  EXPECT_EQ(run(1, 3), run(1, 3));
  EXPECT_THAT(run(1, 1), Ne(run(2, 1)));
  EXPECT_THAT(run(1, 1), Ne(run(1, 2)));
}

TEST(Masters, Bf16MomentsHalveTheMemory) {
  const int64_t before = memory::allocated(memory::Category::optimizer);
  const Tensor weight = leaf({1000}, 1);
  const Adam wide({weight});
  const int64_t wide_bytes = memory::allocated(memory::Category::optimizer) - before;
  const Adam narrow({weight}, {.moments = DType::bf16});
  EXPECT_EQ(wide_bytes, 8000);
  EXPECT_EQ(memory::allocated(memory::Category::optimizer) - before - wide_bytes, 4000);
}

// --- captured steps ---

// On the CPU a captured step runs at once, and must use the hyperparameters of prepare_replay().
template <class O, class Options>
void expect_captured_steps_to_be_steps(Options options) {
  const auto model = [] {
    std::vector<Tensor> parameters;
    for (const DType dtype : {DType::f32, DType::bf16})
      parameters.push_back(cast(randn({300}, {1, 2}), dtype).set_requires_grad());
    return parameters;
  };
  const std::vector<Tensor> plain = model(), captured = model();
  O a(plain, options), b(captured, options);
  { const Optimizer::Capture first(b); }  // allocates the hyperparameters for prepare_replay()
  for (uint64_t step = 0; step < 6; ++step) {
    for (O* optimizer : {&a, &b}) optimizer->set_lr(options.lr * static_cast<double>(step + 1));
    give_random(plain, step);
    give_random(captured, step);
    a.step();
    if (step < 2) {  // both kinds may follow each other
      b.step();
    } else {
      const uint64_t version = captured[0].version();
      b.prepare_replay();
      EXPECT_EQ(captured[0].version(), version + 1);
      b.set_lr(1000);  // not what its kernels read
      const Optimizer::Capture capture(b);
      b.step();
      EXPECT_EQ(captured[0].version(), version + 1);
    }
  }
  EXPECT_EQ(b.steps(), 6);
  const StateDict expected = a.state_dict(), found = b.state_dict();
  for (const auto& [name, tensor] : expected)
    EXPECT_EQ(to_vector(found.at(name)), to_vector(tensor)) << name;
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_EQ(to_vector(captured[i]), to_vector(plain[i]));
}

TEST(CapturedStep, IsAStepOfAdamW) {
  expect_captured_steps_to_be_steps<AdamW>(AdamOptions{.lr = 1e-2, .weight_decay = 0.1});
}

TEST(CapturedStep, IsAStepOfSgd) {
  expect_captured_steps_to_be_steps<SGD>(SgdOptions{.lr = 1e-2, .momentum = 0.9});
}

TEST(CapturedStep, DoesNotRoundAtRandom) {
  const Tensor weight = leaf({8}, 1, DType::bf16);
  SGD optimizer({weight}, {.master = {.masters = false, .stochastic_rounding = true}});
  EXPECT_THAT(test::error_of([&] { const Optimizer::Capture capture(optimizer); }),
              HasSubstr("stochastic rounding"));
}

// --- the step ---

TEST(Optimizer, LeavesOutParametersWithoutGradient) {
  const Tensor a = leaf({3}, 1), b = leaf({3}, 1);
  SGD optimizer({a, b}, {.lr = 0.5, .weight_decay = 0.1});
  give(a, 1);
  optimizer.step();
  EXPECT_THAT(to_vector(a), Each(::testing::Lt(1.0)));
  EXPECT_THAT(to_vector(b), Each(1.0));
  optimizer.zero_grad();
  EXPECT_FALSE(a.grad().defined());
}

TEST(Optimizer, MomentumStartsWithEachParametersFirstGradient) {
  // b gets its first gradient one step after a: with dampening the two starts differ.
  const Tensor a = leaf({1}, 0), b = leaf({1}, 0);
  SGD optimizer({a, b}, {.lr = 1, .momentum = 0.5, .dampening = 0.5});
  give(a, 1);
  optimizer.step();
  give(b, 1);
  optimizer.step();
  EXPECT_EQ(a.item(), -1 - (0.5 * 1 + 0.5 * 1));
  EXPECT_EQ(b.item(), -1);
}

// As in PyTorch, bias correction counts the updates of each parameter by itself: a first update of
// Adam moves by lr, whenever it comes.
TEST(Optimizer, AdamCountsEachParametersOwnSteps) {
  const Tensor early = leaf({1}, 0), late = leaf({1}, 0);
  Adam optimizer({early, late}, {.lr = 0.5});
  give(early, 1);
  optimizer.step();
  optimizer.step();
  give(late, 3);
  optimizer.step();
  EXPECT_NEAR(late.item(), -0.5, 1e-6);
  EXPECT_NEAR(early.item(), -1.5, 1e-5);
}

TEST(Optimizer, ControlScalesGradientsAndSkips) {
  const Tensor a = leaf({2}, 1), b = leaf({2}, 1);
  SGD scaled({a}, {.lr = 0.1}), skipped({b}, {.lr = 0.1});
  give(a, 8);
  give(b, 8);
  scaled.step({.gradient_factor = full({1}, 0.25), .skip = full({1}, 0)});
  EXPECT_THAT(to_vector(a), Each(DoubleNear(0.8, epsilon(DType::f32))));
  skipped.step({.gradient_factor = {}, .skip = full({1}, 1)});
  EXPECT_THAT(to_vector(b), Each(1.0));
  EXPECT_EQ(scaled.steps(), 1);
  EXPECT_EQ(skipped.steps(), 0);
}

TEST(Optimizer, AStepIsAChangeThatAutogradSees) {
  const Tensor a = leaf({2}, 1);
  SGD optimizer({a}, {.lr = 0.1});
  const uint64_t before = a.version();
  give(a, 1);
  optimizer.step();
  EXPECT_GT(a.version(), before);
}

TEST(Optimizer, SixtyFourBitParametersStayThat) {
  const Tensor a = leaf({4}, 1, DType::f64), b = leaf({4}, 1, DType::f64);
  AdamW adam({a}, {.lr = 1e-3, .weight_decay = 0});
  SGD sgd({b}, {.lr = 1e-13, .momentum = 0.9});
  a.set_grad(full({4}, 0.3, DType::f64));
  b.set_grad(full({4}, 1, DType::f64));
  adam.step();
  sgd.step();
  EXPECT_THAT(to_vector(a), Each(DoubleNear(1 - 1e-3 * 0.3 / (0.3 + 1e-8), 1e-15)));
  EXPECT_THAT(to_vector(b), Each(DoubleNear(1 - 1e-13, 1e-16)));
}

// --- groups ---

TEST(ParameterGroups, HaveTheirOwnOptions) {
  const Tensor decayed = leaf({2}, 1), plain = leaf({2}, 1);
  AdamW optimizer(std::vector<AdamGroup>{{{decayed}, {.lr = 0.1, .weight_decay = 0.5}},
                                         {{plain}, {.lr = 0.2, .weight_decay = 0}}});
  decayed.set_grad(zeros({2}));
  plain.set_grad(zeros({2}));
  optimizer.step();
  EXPECT_THAT(to_vector(decayed), Each(DoubleNear(0.95, epsilon(DType::f32))));
  EXPECT_THAT(to_vector(plain), Each(1.0));
  EXPECT_EQ(optimizer.group_count(), 2u);
  EXPECT_EQ(optimizer.parameters().size(), 2u);
}

TEST(ParameterGroups, KeepTheirRatioUnderASchedule) {
  const Tensor a = leaf({1}, 0), b = leaf({1}, 0);
  SGD optimizer(std::vector<SgdGroup>{{{a}, {.lr = 0.1}}, {{b}, {.lr = 0.3}}});
  optimizer.set_lr(0.01);
  EXPECT_DOUBLE_EQ(optimizer.lr(0), 0.01);
  EXPECT_DOUBLE_EQ(optimizer.lr(1), 0.03);
  optimizer.set_group_lr(1, 0.5);
  EXPECT_DOUBLE_EQ(optimizer.lr(1), 0.5);
  give(a, 1);
  give(b, 1);
  optimizer.step();
  EXPECT_FLOAT_EQ(static_cast<float>(a.item()), -0.01f);
  EXPECT_FLOAT_EQ(static_cast<float>(b.item()), -0.5f);
}

// --- state ---

// Five steps, a trip through a file, five more: bit for bit ten steps.
template <class Make>
void expect_continues(Make make, DType dtype) {
  const auto start = [&] {
    std::vector<Tensor> parameters = {cast(randn({33, 7}, {1, 1}), dtype),
                                      cast(randn({5}, {1, 2}), dtype)};
    for (Tensor& parameter : parameters) parameter.set_requires_grad();
    return parameters;
  };
  const auto steps = [](Optimizer& optimizer, uint64_t begin, uint64_t end) {
    for (uint64_t step = begin; step < end; ++step) {
      give_random(optimizer.parameters(), step);
      optimizer.step();
    }
  };
  const std::vector<Tensor> straight = start(), first = start(), second = start();
  const auto whole = make(straight), half = make(first);
  steps(*whole, 0, 10);
  steps(*half, 0, 5);
  const testing::TemporaryFolder folder;
  io::save_safetensors(folder / "state.safetensors", half->state_dict());
  io::save_safetensors(folder / "model.safetensors",
                       {{"0", first[0].detach()}, {"1", first[1].detach()}});

  const StateDict weights = io::load_safetensors(folder / "model.safetensors");
  {
    const NoGrad no_grad;
    for (size_t i = 0; i < 2; ++i) copy_(second[i], weights.at(std::to_string(i)));
  }
  const auto resumed = make(second);
  resumed->load_state_dict(io::load_safetensors(folder / "state.safetensors"));
  EXPECT_EQ(resumed->steps(), 5);
  steps(*resumed, 5, 10);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(to_vector(second[i]), to_vector(straight[i]));
    EXPECT_EQ(to_vector(resumed->master_of(second[i])), to_vector(whole->master_of(straight[i])));
  }
}

TEST(OptimizerState, ContinuesBitForBit) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    expect_continues(
        [](const auto& p) {
          return std::make_unique<AdamW>(p, AdamOptions{.lr = 0.01, .weight_decay = 0.1});
        },
        dtype);
    expect_continues(
        [](const auto& p) {
          return std::make_unique<Adam>(p, AdamOptions{.lr = 0.01, .moments = DType::bf16});
        },
        dtype);
    expect_continues(
        [](const auto& p) {
          return std::make_unique<SGD>(p,
                                       SgdOptions{.lr = 0.01, .momentum = 0.9, .nesterov = true});
        },
        dtype);
    expect_continues(
        [](const auto& p) {
          return std::make_unique<SGD>(
              p, SgdOptions{.lr = 0.01,
                            .momentum = 0.9,
                            .master = {.masters = false, .stochastic_rounding = true}});
        },
        dtype);
  }
}

TEST(OptimizerState, RefusesAnothersState) {
  const Tensor a = leaf({3}, 1), b = leaf({4}, 1);
  Adam adam({a, b});
  SGD sgd({a, b}, {.momentum = 0.9});
  EXPECT_THAT(test::error_of([&] { adam.load_state_dict({}); }),
              AllOf(HasSubstr("Adam"), HasSubstr("found nothing")));
  EXPECT_THAT(test::error_of([&] { adam.load_state_dict(sgd.state_dict()); }), HasSubstr("second"));
  EXPECT_THROW(sgd.load_state_dict(adam.state_dict()), Error);
  StateDict misshapen = adam.state_dict();
  misshapen["1.first"] = zeros({5});
  EXPECT_THAT(test::error_of([&] { adam.load_state_dict(misshapen); }),
              AllOf(HasSubstr("1.first"), HasSubstr("[4]"), HasSubstr("[5]")));
  StateDict negative = adam.state_dict();
  negative["steps"] = full({}, -3, DType::i64);
  EXPECT_THAT(test::error_of([&] { adam.load_state_dict(negative); }), HasSubstr("steps"));
}

// --- bad input ---

TEST(OptimizerInput, RefusesBadNumbers) {
  const Tensor a = leaf({3}, 1);
  const std::vector<Tensor> parameters = {a};
  for (const double bad : {-1e-3, static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
    EXPECT_THAT(test::error_of([&] { Adam(parameters, {.lr = bad}); }),
                AllOf(HasSubstr("Adam: lr"), HasSubstr("finite")));
    EXPECT_THAT(test::error_of([&] { AdamW(parameters, {.lr = bad}); }), HasSubstr("AdamW: lr"));
    EXPECT_THAT(test::error_of([&] { SGD(parameters, {.lr = bad}); }), HasSubstr("SGD: lr"));
    EXPECT_THAT(test::error_of([&] { Adam(parameters, {.beta1 = bad}); }), HasSubstr("beta1"));
    EXPECT_THAT(test::error_of([&] { Adam(parameters, {.beta2 = bad}); }), HasSubstr("beta2"));
    EXPECT_THAT(test::error_of([&] { Adam(parameters, {.eps = bad}); }), HasSubstr("eps"));
    EXPECT_THAT(test::error_of([&] { Adam(parameters, {.weight_decay = bad}); }),
                HasSubstr("weight_decay"));
    EXPECT_THAT(test::error_of([&] { SGD(parameters, {.momentum = bad}); }), HasSubstr("momentum"));
    EXPECT_THAT(test::error_of([&] { SGD(parameters, {.dampening = bad}); }),
                HasSubstr("dampening"));
    EXPECT_THAT(test::error_of([&] { SGD(parameters, {.weight_decay = bad}); }),
                HasSubstr("weight_decay"));
    SGD sgd(parameters);
    EXPECT_THAT(test::error_of([&] { sgd.set_lr(bad); }), HasSubstr("lr"));
  }
  EXPECT_THROW(Adam(parameters, {.beta1 = 1}), Error);
  EXPECT_THROW(Adam(parameters, {.beta2 = 1}), Error);
  EXPECT_THROW(Adam(parameters, {.moments = DType::f16}), Error);
  EXPECT_THROW(SGD(parameters, {.nesterov = true}), Error);
  EXPECT_THROW(SGD(parameters, {.momentum = 0.9, .dampening = 0.1, .nesterov = true}), Error);
}

TEST(OptimizerInput, RefusesBadParameters) {
  const Tensor a = leaf({3}, 1), fixed = zeros({3});
  EXPECT_THAT(test::error_of([&] { SGD(std::vector<Tensor>{}); }), HasSubstr("parameters"));
  EXPECT_THAT(test::error_of([&] { SGD(std::vector<SgdGroup>{}); }), HasSubstr("groups"));
  EXPECT_THAT(test::error_of([&] { SGD({fixed}); }), HasSubstr("leaves that require a gradient"));
  EXPECT_THAT(test::error_of([&] { SGD({neg(a)}); }), HasSubstr("leaves"));
  EXPECT_THAT(test::error_of([&] { SGD({a, a}); }), HasSubstr("each parameter once"));
  EXPECT_THROW(SGD(std::vector<Tensor>{Tensor()}), Error);
  SGD sgd({a});
  EXPECT_THAT(test::error_of([&] { sgd.master_of(fixed); }), HasSubstr("one of this optimizer's"));
  EXPECT_THAT(test::error_of([&] { sgd.set_group_lr(3, 0.1); }), HasSubstr("group"));
}

}  // namespace
}  // namespace binade::optim
