// Rules that every optimizer keeps: master weights, state, skipped steps, gradient factors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>

#include "binade/amp/grad_scaler.h"
#include "binade/autograd/grad_mode.h"
#include "binade/base/parallel.h"
#include "binade/io/safetensors.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/optim/adafactor.h"
#include "binade/optim/adagrad.h"
#include "binade/optim/adam.h"
#include "binade/optim/lion.h"
#include "binade/optim/muon.h"
#include "binade/optim/nadam.h"
#include "binade/optim/rmsprop.h"
#include "binade/optim/sgd.h"
#include "io/temporary_folder.h"
#include "support/error_of.h"

namespace binade::optim {
namespace {

using ::testing::AllOf;
using ::testing::FloatEq;
using ::testing::HasSubstr;
using ::testing::Pointwise;

using Parameters = std::vector<Tensor>;

struct Kind {
  const char* name;
  std::function<std::unique_ptr<Optimizer>(const Parameters&)> make;
};

// The first parameter is a matrix, the second a vector.
std::vector<Kind> kinds() {
  return {
      {"SGD",
       [](const Parameters& p) {
         return std::make_unique<SGD>(p, SgdOptions{.lr = 1e-2, .momentum = 0.9});
       }},
      {"AdamW", [](const Parameters& p) { return std::make_unique<AdamW>(p); }},
      {"amsgrad",
       [](const Parameters& p) { return std::make_unique<Adam>(p, AdamOptions{.amsgrad = true}); }},
      {"8-bit",
       [](const Parameters& p) {
         return std::make_unique<AdamW>(p, AdamOptions{.moments = DType::u8});
       }},
      {"RMSprop",
       [](const Parameters& p) {
         return std::make_unique<RMSprop>(
             p, RmspropOptions{.lr = 1e-3, .momentum = 0.9, .centered = true});
       }},
      {"Adagrad",
       [](const Parameters& p) {
         return std::make_unique<Adagrad>(p, AdagradOptions{.lr_decay = 0.1});
       }},
      {"Lion",
       [](const Parameters& p) {
         return std::make_unique<Lion>(p, LionOptions{.lr = 1e-3, .weight_decay = 0.1});
       }},
      {"NAdam",
       [](const Parameters& p) {
         return std::make_unique<NAdam>(p, NadamOptions{.weight_decay = 0.1});
       }},
      {"Adafactor",
       [](const Parameters& p) {
         return std::make_unique<Adafactor>(p, AdafactorOptions{.weight_decay = 0.1});
       }},
      {"Muon",
       [](const Parameters& p) {
         return std::make_unique<Muon>(std::vector<MuonGroup>{{{p[0]}, {.lr = 1e-2}}},
                                       std::vector<AdamGroup>{{{p[1]}, {}}});
       }},
  };
}

// More than one of a kernel's pieces, and a size that 8-bit moments apply to.
Parameters start(DType dtype) {
  Parameters parameters = {cast(randn({65, 71}, {1, 1}), dtype), cast(randn({37}, {1, 2}), dtype)};
  for (Tensor& parameter : parameters) parameter.set_requires_grad();
  return parameters;
}

void give_gradients(const Parameters& parameters, uint64_t step, double factor = 1) {
  for (size_t i = 0; i < parameters.size(); ++i)
    parameters[i].set_grad(randn(parameters[i].shape(), {step + 100, i}) * factor);
}

void take_steps(Optimizer& optimizer, uint64_t begin, uint64_t end) {
  for (uint64_t step = begin; step < end; ++step) {
    give_gradients(optimizer.parameters(), step);
    optimizer.step();
  }
}

std::vector<double> weights(const Parameters& parameters) {
  std::vector<double> all;
  for (const Tensor& parameter : parameters) {
    const auto values = to_vector(parameter);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

TEST(EveryOptimizer, RoundsSixteenBitParametersFromMasters) {
  for (const Kind& kind : kinds()) {
    for (const DType dtype : {DType::bf16, DType::f16}) {
      SCOPED_TRACE(kind.name);
      const Parameters low = start(dtype), before = start(dtype);
      const auto optimizer = kind.make(low);
      take_steps(*optimizer, 0, 4);
      for (const Tensor& parameter : low) {
        const Tensor master = optimizer->master_of(parameter);
        EXPECT_EQ(master.dtype(), DType::f32);
        EXPECT_EQ(to_vector(parameter), to_vector(cast(master, dtype)));
        EXPECT_NE(to_vector(parameter), to_vector(master));
      }
      EXPECT_NE(weights(low), weights(before));
    }
  }
}

// f32 parameters with the same values take the same path as the master weights of 16-bit ones.
TEST(EveryOptimizer, UpdatesMastersAsItUpdatesF32Parameters) {
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    const Parameters low = start(DType::bf16);
    Parameters wide;
    for (const Tensor& parameter : low)
      wide.push_back(cast(parameter.detach(), DType::f32).set_requires_grad());
    const auto a = kind.make(low), b = kind.make(wide);
    take_steps(*a, 0, 5);
    take_steps(*b, 0, 5);
    for (size_t i = 0; i < low.size(); ++i)
      EXPECT_EQ(to_vector(a->master_of(low[i])), to_vector(wide[i]));
  }
}

TEST(EveryOptimizer, ContinuesBitForBitFromAFile) {
  for (const Kind& kind : kinds()) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(kind.name);
      const Parameters straight = start(dtype), first = start(dtype), second = start(dtype);
      const auto whole = kind.make(straight), half = kind.make(first), resumed = kind.make(second);
      take_steps(*whole, 0, 8);
      take_steps(*half, 0, 4);
      const testing::TemporaryFolder folder;
      io::save_safetensors(folder / "state.safetensors", half->state_dict());
      {
        const NoGrad no_grad;
        for (size_t i = 0; i < second.size(); ++i) copy_(second[i], first[i]);
      }
      resumed->load_state_dict(io::load_safetensors(folder / "state.safetensors"));
      EXPECT_EQ(resumed->steps(), 4);
      take_steps(*resumed, 4, 8);
      EXPECT_EQ(weights(second), weights(straight));
      const StateDict expected = whole->state_dict(), found = resumed->state_dict();
      ASSERT_EQ(found.size(), expected.size());
      for (const auto& [name, tensor] : expected)
        EXPECT_EQ(to_vector(found.at(name)), to_vector(tensor)) << name;
    }
  }
}

TEST(EveryOptimizer, AppliesTheGradientFactor) {
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    const Parameters a = start(DType::f32), b = start(DType::f32);
    const auto plain = kind.make(a), scaled = kind.make(b);
    for (uint64_t step = 0; step < 3; ++step) {
      give_gradients(a, step);
      give_gradients(b, step, 8);
      plain->step();
      scaled->step({.gradient_factor = full({1}, 0.125), .skip = {}});
    }
    EXPECT_EQ(weights(b), weights(a));  // powers of two are exact
  }
}

// A loss scaler skips the step with an infinite gradient and leaves no trace of it.
TEST(EveryOptimizer, WorksWithALossScaler) {
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    const Parameters a = start(DType::f32), b = start(DType::f32);
    const auto plain = kind.make(a), scaled = kind.make(b);
    amp::GradScaler scaler({.init_scale = 16});
    for (uint64_t step = 0; step < 4; ++step) {
      const bool overflows = step == 1;
      if (!overflows) {
        give_gradients(a, step);
        plain->step();
      }
      const double scale = scaler.scale(tensor(1.0)).item();
      give_gradients(b, step, overflows ? INFINITY : scale);
      EXPECT_EQ(scaler.step(*scaled).applied(), !overflows);
      scaler.update();
    }
    EXPECT_EQ(scaled->steps(), 3);
    EXPECT_EQ(weights(b), weights(a));
  }
}

TEST(EveryOptimizer, GivesTheSameBitsForAnyNumberOfThreads) {
  const int before = binade::threads();
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    std::vector<std::vector<double>> results;
    for (const int count : {1, 3}) {
      set_threads(count);
      const Parameters parameters = start(DType::f32);
      const auto optimizer = kind.make(parameters);
      take_steps(*optimizer, 0, 3);
      results.push_back(weights(parameters));
    }
    EXPECT_EQ(results[0], results[1]);
  }
  set_threads(before);
}

// Each finds the minimum of a quadratic.
TEST(EveryOptimizer, ReducesALoss) {
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    const Parameters parameters = start(DType::f32);
    const auto optimizer = kind.make(parameters);
    const auto loss = [&] { return sum(square(parameters[0])) + sum(square(parameters[1])); };
    const double before = loss().item();
    optimizer->set_lr(0.05);
    for (int step = 0; step < 60; ++step) {
      optimizer->zero_grad();
      loss().backward();
      optimizer->step();
    }
    EXPECT_LT(loss().item(), 0.7 * before);
  }
}

TEST(EveryOptimizer, RefusesTheStateOfAnother) {
  const Parameters parameters = start(DType::f32);
  for (const Kind& from : kinds()) {
    for (const Kind& to : kinds()) {
      const auto a = from.make(parameters), b = to.make(parameters);
      const StateDict state = a->state_dict();
      std::vector<std::string> names[2];
      for (const auto& [name, tensor] : state) names[0].push_back(name);
      for (const auto& [name, tensor] : b->state_dict()) names[1].push_back(name);
      if (names[0] == names[1]) continue;
      EXPECT_THROW(b->load_state_dict(state), Error) << from.name << " to " << to.name;
    }
  }
}

TEST(EveryOptimizer, SetsMomentumIfItHasOne) {
  const Parameters parameters = start(DType::f32);
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    const auto optimizer = kind.make(parameters);
    const std::string name(optimizer->name());
    if (name == "Adagrad" || name == "Adafactor") {
      EXPECT_THAT(test::error_of([&] { optimizer->set_momentum(0.5); }),
                  AllOf(HasSubstr(name), HasSubstr("momentum")));
      continue;
    }
    EXPECT_THROW(optimizer->set_momentum(-0.1), Error);
    const Parameters a = start(DType::f32), b = start(DType::f32);
    const auto changed = kind.make(a), plain = kind.make(b);
    take_steps(*changed, 0, 2);
    take_steps(*plain, 0, 2);
    changed->set_momentum(0.1);
    take_steps(*changed, 2, 3);
    take_steps(*plain, 2, 3);
    EXPECT_NE(weights(a), weights(b));
  }
}

// Steps with the gradients 1, 2, 3, 4 and the momentum 0.9, 0.9, 0, 0.5.
double after_four_steps(Optimizer& optimizer, const Tensor& parameter) {
  for (int step = 1; step <= 4; ++step) {
    if (step == 3) optimizer.set_momentum(0);
    if (step == 4) optimizer.set_momentum(0.5);
    parameter.set_grad(full({1}, step));
    optimizer.step();
  }
  return parameter.item();
}

// PyTorch's rule: at 0 the buffer is neither used nor changed.
TEST(EveryOptimizer, MomentumComesBackAfterZero) {
  Tensor p = zeros({1});
  p.set_requires_grad();
  SGD sgd({p}, {.lr = 0.1, .momentum = 0.9, .dampening = 0.25});
  const double second = 0.9 * 1 + 0.75 * 2, fourth = 0.5 * second + 0.75 * 4;
  EXPECT_NEAR(after_four_steps(sgd, p), -0.1 * (1 + second + 3 + fourth), 1e-6);

  Tensor q = zeros({1});
  q.set_requires_grad();
  RMSprop rmsprop({q}, {.lr = 0.1, .alpha = 0.5, .momentum = 0.9});
  double square = 0, buffer = 0, expected = 0;
  for (const auto& [gradient, momentum] :
       std::initializer_list<std::pair<double, double>>{{1, 0.9}, {2, 0.9}, {3, 0}, {4, 0.5}}) {
    square = 0.5 * square + 0.5 * gradient * gradient;
    const double change = gradient / (std::sqrt(square) + 1e-8);
    if (momentum > 0) buffer = momentum * buffer + change;
    expected -= 0.1 * (momentum > 0 ? buffer : change);
  }
  EXPECT_NEAR(after_four_steps(rmsprop, q), expected, 1e-6);
}

TEST(EveryOptimizer, RefusesBadNumbers) {
  const Parameters p = start(DType::f32), matrix = {p[0]};
  for (const double bad : {-1e-3, static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
    const auto refuses = [bad](const char* argument, auto make) {
      EXPECT_THAT(test::error_of(make), HasSubstr(argument)) << argument << " " << bad;
    };
    refuses("RMSprop: lr", [&] { RMSprop(p, {.lr = bad}); });
    refuses("alpha", [&] { RMSprop(p, {.alpha = bad}); });
    refuses("eps", [&] { RMSprop(p, {.eps = bad}); });
    refuses("weight_decay", [&] { RMSprop(p, {.weight_decay = bad}); });
    refuses("momentum", [&] { RMSprop(p, {.momentum = bad}); });
    refuses("Adagrad: lr", [&] { Adagrad(p, {.lr = bad}); });
    refuses("lr_decay", [&] { Adagrad(p, {.lr_decay = bad}); });
    refuses("initial_sum", [&] { Adagrad(p, {.initial_sum = bad}); });
    refuses("Lion: lr", [&] { Lion(p, {.lr = bad}); });
    refuses("beta1", [&] { Lion(p, {.beta1 = bad}); });
    refuses("beta2", [&] { Lion(p, {.beta2 = bad}); });
    refuses("Adafactor: lr", [&] { Adafactor(p, {.lr = bad}); });
    refuses("eps1", [&] { Adafactor(p, {.eps1 = bad}); });
    refuses("eps2", [&] { Adafactor(p, {.eps2 = bad}); });
    refuses("Adafactor: d", [&] { Adafactor(p, {.d = bad}); });
    refuses("Muon: lr", [&] { Muon(matrix, {.lr = bad}); });
    refuses("Muon: momentum", [&] { Muon(matrix, {.momentum = bad}); });
  }
  EXPECT_THROW(Adafactor(p, {.beta2_decay = 0.5}), Error);
  EXPECT_THROW(Lion(p, {.momentum = DType::f16}), Error);
  EXPECT_THROW(Muon(matrix, {.steps = 0}), Error);
  EXPECT_THROW(Muon(matrix, {.dtype = DType::f16}), Error);
  EXPECT_THAT(test::error_of([&] { Muon{p}; }), HasSubstr("AdamW's groups"));
  EXPECT_THROW(Muon(std::vector<MuonGroup>{}), Error);
  EXPECT_THROW(Adam(p, {.moments = DType::u8, .amsgrad = true}), Error);
  const MasterOptions random{.masters = false, .stochastic_rounding = true};
  EXPECT_THROW(Adafactor(p, {.master = random}), Error);
  EXPECT_THROW(Muon(matrix, {.master = random}), Error);
}

TEST(EveryOptimizer, IsCapturedOnlyIfItsKernelsReadTheirHyperparameters) {
  const Parameters p = start(DType::f32);
  Lion lion(p);
  EXPECT_THAT(test::error_of([&] { const Optimizer::Capture capture(lion); }),
              HasSubstr("SGD, Adam, AdamW or Muon"));
}

// Zero has no direction, and NaN must not become one.
TEST(Lion, StepsByTheSign) {
  const Tensor w = full({4}, 1).set_requires_grad();
  Lion lion({w}, {.lr = 0.25});
  w.set_grad(tensor({3, -1e-30, 0, NAN}, {4}));
  lion.step();
  const auto found = to_vector(w);
  EXPECT_EQ(found[0], 0.75);
  EXPECT_EQ(found[1], 1.25);
  EXPECT_EQ(found[2], 1);
  EXPECT_TRUE(std::isnan(found[3]));
}

TEST(EveryOptimizer, RefusesToHaveNoGroup) {
  const auto refuses = [](auto&& make) {
    EXPECT_THAT(test::error_of(make), HasSubstr("groups: expected at least one"));
  };
  refuses([] { Adafactor(std::vector<AdafactorGroup>()); });
  refuses([] { Adagrad(std::vector<AdagradGroup>()); });
  refuses([] { Adam(std::vector<AdamGroup>()); });
  refuses([] { AdamW(std::vector<AdamGroup>()); });
  refuses([] { Lion(std::vector<LionGroup>()); });
  refuses([] { RMSprop(std::vector<RmspropGroup>()); });
  refuses([] { SGD(std::vector<SgdGroup>()); });
}

// Steps are relative to a parameter's size, but not to one below eps2: from zeros, the first step
// is of the size lr * eps2 in the direction of each gradient. A gradient of 0 moves nothing.
TEST(Adafactor, LeavesZeros) {
  for (const double eps2 : {1e-3, 1e-2}) {
    const Tensor bias = zeros({4}).set_requires_grad(), matrix = zeros({2, 3}).set_requires_grad();
    Adafactor adafactor({bias, matrix}, {.lr = 0.25, .eps2 = eps2});
    const double step = 0.25 * eps2;
    bias.set_grad(tensor({1, -2, 30, -0.5}, {4}));
    matrix.set_grad(tensor({2, -2, 2, -2, 2, -2}, {2, 3}));
    adafactor.step();
    EXPECT_THAT(to_vector(bias), Pointwise(FloatEq(), {-step, step, -step, step}));
    EXPECT_THAT(to_vector(matrix), Pointwise(FloatEq(), {-step, step, -step, step, -step, step}));
    bias.set_grad(zeros({4}));
    const std::vector<double> before = to_vector(bias);
    Adafactor fresh({bias}, {.lr = 0.25, .eps2 = eps2});
    fresh.step();
    EXPECT_EQ(to_vector(bias), before);
  }
}

// A row and a column in place of a matrix.
TEST(Adafactor, KeepsFewNumbersOfAMatrix) {
  const int64_t before = memory::allocated(memory::Category::optimizer);
  const Tensor w = full({300, 200}, 1).set_requires_grad();
  const Adafactor adafactor({w});
  EXPECT_EQ(memory::allocated(memory::Category::optimizer) - before, 500 * 4);
}

}  // namespace
}  // namespace binade::optim
