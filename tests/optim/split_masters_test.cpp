// Master weights that share their upper bits with bf16 parameters: every optimizer computes what it
// computes with f32 master weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>

#include "binade/amp/grad_scaler.h"
#include "binade/autograd/grad_mode.h"
#include "binade/backend/gpu.h"
#include "binade/base/parallel.h"
#include "binade/formats/split_f32.h"
#include "binade/io/safetensors.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/optim/adafactor.h"
#include "binade/optim/adagrad.h"
#include "binade/optim/adam.h"
#include "binade/optim/ema.h"
#include "binade/optim/lion.h"
#include "binade/optim/muon.h"
#include "binade/optim/rmsprop.h"
#include "binade/optim/sgd.h"
#include "io/temporary_folder.h"
#include "support/values.h"

namespace binade::optim {
namespace {

using ::testing::Each;

using SplitTensors = std::vector<Tensor>;

struct SplitKind {
  const char* name;
  std::function<std::unique_ptr<Optimizer>(const SplitTensors&, const MasterOptions&)> make;
};

// The first parameter is a matrix, the second a vector.
std::vector<SplitKind> split_kinds() {
  return {
      {"SGD",
       [](const SplitTensors& p, const MasterOptions& master) {
         return std::make_unique<SGD>(
             p, SgdOptions{.lr = 1e-2, .momentum = 0.9, .nesterov = true, .master = master});
       }},
      {"AdamW",
       [](const SplitTensors& p, const MasterOptions& master) {
         return std::make_unique<AdamW>(p, AdamOptions{.weight_decay = 0.1, .master = master});
       }},
      {"AdamW, bf16 moments",
       [](const SplitTensors& p, const MasterOptions& master) {
         return std::make_unique<AdamW>(p, AdamOptions{.moments = DType::bf16, .master = master});
       }},
      {"AdamW, 8-bit moments",
       [](const SplitTensors& p, const MasterOptions& master) {
         return std::make_unique<AdamW>(p, AdamOptions{.moments = DType::u8, .master = master});
       }},
      {"Adam, amsgrad",
       [](const SplitTensors& p, const MasterOptions& master) {
         return std::make_unique<Adam>(p, AdamOptions{.amsgrad = true, .master = master});
       }},
      {"RMSprop",
       [](const SplitTensors& p, const MasterOptions& master) {
         return std::make_unique<RMSprop>(
             p, RmspropOptions{.lr = 1e-3, .momentum = 0.9, .centered = true, .master = master});
       }},
      {"Adagrad",
       [](const SplitTensors& p, const MasterOptions& master) {
         return std::make_unique<Adagrad>(p, AdagradOptions{.master = master});
       }},
      {"Lion",
       [](const SplitTensors& p, const MasterOptions& master) {
         return std::make_unique<Lion>(
             p, LionOptions{.lr = 1e-3, .weight_decay = 0.1, .master = master});
       }},
      {"Adafactor",
       [](const SplitTensors& p, const MasterOptions& master) {
         return std::make_unique<Adafactor>(
             p, AdafactorOptions{.weight_decay = 0.1, .master = master});
       }},
      {"Muon",
       [](const SplitTensors& p, const MasterOptions& master) {
         return std::make_unique<Muon>(
             std::vector<MuonGroup>{{{p[0]}, {.lr = 1e-2, .master = master}}},
             std::vector<AdamGroup>{{{p[1]}, {.master = master}}});
       }},
  };
}

const MasterOptions split_masters{.split_masters = true};

// More than one of a kernel's pieces, taller than wide, and a size for 8-bit moments.
SplitTensors bf16_parameters(Device device = Device::cpu()) {
  SplitTensors parameters;
  for (const Tensor& x : {randn({71, 65}, {1, 1}), randn({37}, {1, 2})})
    parameters.push_back(to(cast(x, DType::bf16), device).set_requires_grad());
  return parameters;
}

void take_split_steps(Optimizer& optimizer, uint64_t begin, uint64_t end) {
  for (uint64_t step = begin; step < end; ++step) {
    const SplitTensors parameters = optimizer.parameters();
    for (size_t i = 0; i < parameters.size(); ++i)
      parameters[i].set_grad(
          to(randn(parameters[i].shape(), {step + 100, i}), parameters[i].device()));
    optimizer.step();
  }
}

void expect_same_state(const StateDict& found, const StateDict& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    EXPECT_EQ(found.at(name).dtype(), tensor.dtype()) << name;
    EXPECT_TRUE(test::same_bits(test::on_host(found.at(name)), test::on_host(tensor))) << name;
  }
}

// The parameters are the master weights rounded to nearest; ties are counted.
int64_t expect_rounded(Optimizer& optimizer) {
  int64_t ties = 0;
  for (const Tensor& parameter : optimizer.parameters()) {
    const Tensor low = test::on_host(parameter),
                 master = test::on_host(optimizer.master_of(parameter));
    for (int64_t i = 0; i < low.numel(); ++i) {
      const float x = master.data<float>()[i];
      EXPECT_EQ(low.data<bf16>()[i].bits, formats::split(x).nearest.bits);
      ties += (formats::float_bits(x) & 0xffff) == 0x8000;
    }
  }
  return ties;
}

TEST(SplitMasters, AreUpdatedAsF32MasterWeights) {
  for (const SplitKind& kind : split_kinds()) {
    SCOPED_TRACE(kind.name);
    const SplitTensors a = bf16_parameters(), b = bf16_parameters();
    const auto split = kind.make(a, split_masters), whole = kind.make(b, {});
    int64_t ties = 0;
    for (uint64_t step = 0; step < 300; step += 20) {
      take_split_steps(*split, step, step + 20);
      take_split_steps(*whole, step, step + 20);
      ties += expect_rounded(*split);
      expect_same_state(split->state_dict(), whole->state_dict());
      if (ties > 0) continue;
      for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(test::same_bits(a[i], b[i]));
    }
    // One master weight of 65,536 is a tie; 15 looks at 4,652 of them find about one.
    EXPECT_LT(ties, 12);
    EXPECT_NE(to_vector(a[0]), to_vector(bf16_parameters()[0]));
  }
}

TEST(SplitMasters, TakeTwoBytesLess) {
  const Tensor a = zeros({4096}, DType::bf16).set_requires_grad(),
               b = zeros({4096}, DType::bf16).set_requires_grad();
  const auto allocated = [] { return memory::allocated(memory::Category::optimizer); };
  const int64_t before = allocated();
  const AdamW whole({a});
  const int64_t between = allocated();
  const AdamW split({b}, {.master = split_masters});
  EXPECT_EQ(between - before, 4096 * 12);
  EXPECT_EQ(allocated() - between, 4096 * 10);
}

// Other types have f32 master weights, or none, as without the option.
TEST(SplitMasters, AreOfBf16Parameters) {
  for (const DType dtype : {DType::f16, DType::f32}) {
    const Tensor a = cast(randn({100}, {1, 1}), dtype).set_requires_grad(),
                 b = cast(randn({100}, {1, 1}), dtype).set_requires_grad();
    AdamW split({a}, {.master = split_masters}), whole({b});
    take_split_steps(split, 0, 3);
    take_split_steps(whole, 0, 3);
    EXPECT_TRUE(test::same_bits(a, b));
    expect_same_state(split.state_dict(), whole.state_dict());
  }
}

// A file of either kind continues as the other, byte for byte.
TEST(SplitMasters, AreSavedAsF32) {
  const testing::TemporaryFolder folder;
  for (const SplitKind& kind : split_kinds()) {
    for (const bool from_split : {false, true}) {
      SCOPED_TRACE(std::string(kind.name) + (from_split ? " from split" : " to split"));
      const SplitTensors a = bf16_parameters(), b = bf16_parameters(), c = bf16_parameters();
      const auto straight = kind.make(a, split_masters);
      const auto half = kind.make(b, from_split ? split_masters : MasterOptions{});
      const auto resumed = kind.make(c, from_split ? MasterOptions{} : split_masters);
      take_split_steps(*straight, 0, 8);
      take_split_steps(*half, 0, 4);
      io::save_safetensors(folder / "state.safetensors", half->state_dict());
      resumed->load_state_dict(io::load_safetensors(folder / "state.safetensors"));
      expect_same_state(resumed->state_dict(), half->state_dict());
      take_split_steps(*resumed, 4, 8);
      expect_same_state(resumed->state_dict(), straight->state_dict());
    }
  }
}

// Ties are loaded as they are, too: the parameter is that of split() on every process.
TEST(SplitMasters, LoadTies) {
  const float ties[] = {1 + 0x1p-8f, 1 + 3 * 0x1p-8f, -1 - 0x1p-8f, -1 - 3 * 0x1p-8f};
  const float rounded[] = {1 + 0x1p-7f, 1 + 0x1p-6f, -1 - 0x1p-7f, -1 - 0x1p-6f};
  const Tensor low = zeros({4}, DType::bf16).set_requires_grad();
  SGD whole({low}, {.lr = 1});
  StateDict state = whole.state_dict();
  std::memcpy(state.at("0.master").mutable_data<float>(), ties, sizeof ties);
  const Tensor a = zeros({4}, DType::bf16).set_requires_grad(),
               b = zeros({4}, DType::bf16).set_requires_grad();
  SGD all({a}, {.lr = 1, .master = split_masters}),
      half({b}, {.lr = 1, .master = {.split_masters = true, .parts = {{2, 2}}}});
  all.load_state_dict(state);
  half.load_state_dict(state);
  EXPECT_EQ(to_vector(all.master_of(a)), std::vector<double>(ties, ties + 4));
  EXPECT_EQ(to_vector(half.master_of(b)), std::vector<double>(ties + 2, ties + 4));
  EXPECT_EQ(to_vector(a), std::vector<double>(rounded, rounded + 4));
  EXPECT_EQ(to_vector(b), to_vector(a));
}

TEST(SplitMasters, CanBeSet) {
  const Tensor values = randn({71, 65}, {7, 7});
  const SplitTensors a = bf16_parameters();
  AdamW split(a, {.master = split_masters});
  const uint64_t version = a[0].version();
  split.set_master(a[0], values);
  EXPECT_TRUE(test::same_bits(split.master_of(a[0]), values));
  expect_rounded(split);
  EXPECT_GT(a[0].version(), version);
  const SplitTensors b = bf16_parameters();
  AdamW whole(b);
  whole.set_master(b[0], values);
  EXPECT_TRUE(test::same_bits(whole.master_of(b[0]), values));
}

// A process that updates a part of a parameter has the same parameter as all others.
TEST(SplitMasters, OfAPartAreSetWithTheWholeParameter) {
  const std::vector<double> ties = {1 + 0x1p-8, -1 - 0x1p-8, 1 + 3 * 0x1p-8, 1 + 0x1p-8};
  const Tensor given = tensor(ties, {4});
  const Tensor a = zeros({4}, DType::bf16).set_requires_grad(),
               b = zeros({4}, DType::bf16).set_requires_grad();
  SGD all({a}, {.master = split_masters}),
      half({b}, {.master = {.split_masters = true, .parts = {{2, 2}}}});
  all.set_master(a, given);
  half.set_master(b, given);
  EXPECT_EQ(to_vector(half.master_of(b)), std::vector<double>(ties.begin() + 2, ties.end()));
  EXPECT_EQ(to_vector(a), (std::vector<double>{1 + 0x1p-7, -1 - 0x1p-7, 1 + 0x1p-6, 1 + 0x1p-7}));
  EXPECT_EQ(to_vector(b), to_vector(a));
}

// Stochastic rounding is for parameters without master weights.
void expect_exact_with_stochastic_rounding(Device device) {
  const SplitTensors a = bf16_parameters(device), b = bf16_parameters(device);
  AdamW plain(a, {.master = split_masters}),
      rounding(b, {.master = {.split_masters = true, .stochastic_rounding = true}});
  take_split_steps(plain, 0, 3);
  take_split_steps(rounding, 0, 3);
  expect_same_state(rounding.state_dict(), plain.state_dict());
}

TEST(SplitMasters, AreNotRoundedStochastically) {
  expect_exact_with_stochastic_rounding(Device::cpu());
}

// A step that the scaler skips changes neither half.
TEST(SplitMasters, StayAsTheyAreInASkippedStep) {
  const SplitTensors a = bf16_parameters();
  AdamW split(a, {.master = split_masters});
  take_split_steps(split, 0, 2);
  const Tensor master = clone(split.master_of(a[0])), low = clone(a[0].detach());
  for (const Tensor& parameter : a) parameter.set_grad(full(parameter.shape(), INFINITY));
  amp::GradScaler scaler({.init_scale = 16});
  scaler.scale(tensor(1.0));
  EXPECT_FALSE(scaler.step(split).applied());
  EXPECT_TRUE(test::same_bits(split.master_of(a[0]), master));
  EXPECT_TRUE(test::same_bits(a[0], low));
}

// Weights that come back as they were, as after an evaluation of averages or when a model is loaded
// after its optimizer, have the master weights they had.
TEST(SplitMasters, OutliveWritesOfTheSameWeights) {
  const SplitTensors a = bf16_parameters(), b = bf16_parameters();
  AdamW split(a, {.master = split_masters}), undisturbed(b, {.master = split_masters});
  EMA average(a, 0.5);  // of the master weights
  take_split_steps(split, 0, 3);
  take_split_steps(undisturbed, 0, 3);
  average.update(split);
  EXPECT_TRUE(test::same_bits(average.of(a[0]), split.master_of(a[0])));
  { const EMA::Applied applied(average); }
  {
    const NoGrad no_grad;
    copy_(a[1], clone(a[1]));
  }
  take_split_steps(split, 3, 6);
  take_split_steps(undisturbed, 3, 6);
  expect_same_state(split.state_dict(), undisturbed.state_dict());
}

// Other weights are followed to within their rounding.
TEST(SplitMasters, FollowAParameterThatIsWritten) {
  const Tensor low = full({4}, 1, DType::bf16).set_requires_grad();
  SGD split({low}, {.lr = 0x1p-12, .master = split_masters});
  low.set_grad(ones({4}));
  split.step();
  ASSERT_THAT(to_vector(split.master_of(low)), Each(1 - 0x1p-12));
  {
    const NoGrad no_grad;
    fill_(low, 3);
  }
  EXPECT_THAT(to_vector(split.master_of(low)), Each(3 - 0x1p-10));  // 2^12 units of f32
  split.step();
  EXPECT_THAT(to_vector(low), Each(3.0));
  {
    const NoGrad no_grad;
    fill_(low, 0);
  }
  EXPECT_THAT(to_vector(split.master_of(low)), Each(0.0));  // not the NaN of a wrapped rest
}

TEST(SplitMasters, HaveTheSameBitsForAnyNumberOfThreads) {
  const int before = binade::threads();
  StateDict first;
  for (const int count : {1, 3}) {
    set_threads(count);
    const SplitTensors a = bf16_parameters();
    AdamW split(a, {.master = split_masters});
    take_split_steps(split, 0, 3);
    if (first.empty()) {
      first = split.state_dict();
    } else {
      expect_same_state(split.state_dict(), first);
    }
  }
  set_threads(before);
}

// Odd addresses and sizes included: parts of a parameter begin anywhere.
TEST(SplitMastersGpu, HaveTheBitsOfF32MasterWeightsAndOfTheCpu) {
  if (backend::gpus().empty()) GTEST_SKIP() << "there is no GPU";
  for (const SplitKind& kind : split_kinds()) {
    const std::string name = kind.name;
    if (name != "SGD" && !name.starts_with("AdamW")) continue;
    SCOPED_TRACE(name);
    const SplitTensors a = bf16_parameters(Device::cuda()), b = bf16_parameters(Device::cuda()),
                       c = bf16_parameters();
    const auto split = kind.make(a, split_masters), whole = kind.make(b, {}),
               on_cpu = kind.make(c, split_masters);
    int64_t ties = 0;
    for (uint64_t step = 0; step < 300; step += 50) {
      for (Optimizer* one : {split.get(), whole.get(), on_cpu.get()})
        take_split_steps(*one, step, step + 50);
      ties += expect_rounded(*split);
      expect_same_state(split->state_dict(), whole->state_dict());
      expect_same_state(split->state_dict(), on_cpu->state_dict());
    }
    EXPECT_LT(ties, 12);
    for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(test::same_bits(test::on_host(a[i]), c[i]));
  }
}

TEST(SplitMastersGpu, AreNotRoundedStochastically) {
  if (backend::gpus().empty()) GTEST_SKIP() << "there is no GPU";
  expect_exact_with_stochastic_rounding(Device::cuda());
}

TEST(SplitMastersGpu, OfPartsAreThoseOfTheWhole) {
  if (backend::gpus().empty()) GTEST_SKIP() << "there is no GPU";
  const SplitTensors a = bf16_parameters(Device::cuda()), b = bf16_parameters(Device::cuda());
  const Part part{1001, 2222};
  AdamW whole({a[0]}, {.master = split_masters}),
      own({b[0]}, {.master = {.split_masters = true, .parts = {part}}});
  for (uint64_t step = 0; step < 3; ++step) {
    const Tensor gradient = to(randn(a[0].shape(), {step, 0}), Device::cuda());
    a[0].set_grad(gradient);
    whole.step();
    own.use_gradients({gradient.strided({part.count}, {1}, part.begin)});
    own.step();
  }
  const Tensor all = test::on_host(whole.master_of(a[0])),
               mine = test::on_host(own.master_of(b[0]));
  EXPECT_EQ(std::memcmp(mine.data<float>(), all.data<float>() + part.begin,
                        static_cast<size_t>(part.count) * sizeof(float)),
            0);
  own.load_state_dict(whole.state_dict());
  EXPECT_TRUE(test::same_bits(test::on_host(b[0]), test::on_host(a[0])));
}

// The encoding itself on a GPU: NaN, infinities, ties, subnormals.
TEST(SplitMastersGpu, AreEncodedAsOnTheCpu) {
  if (backend::gpus().empty()) GTEST_SKIP() << "there is no GPU";
  constexpr int64_t count = 3 * 65536;
  const Tensor values = Tensor::empty({count}, DType::f32);
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t lower[] = {0x7fff, 0x8000, 0x8001};
    values.mutable_data<float>()[i] =
        formats::float_from_bits(static_cast<uint32_t>(i / 3) << 16 | lower[i % 3]);
  }
  const Tensor low = zeros({count}, DType::bf16, Device::cuda()).set_requires_grad();
  SGD split({low}, {.master = split_masters});
  split.set_master(low, to(values, Device::cuda()));
  const Tensor found = test::on_host(low), back = test::on_host(split.master_of(low));
  for (int64_t i = 0; i < count; ++i) {
    const float x = values.data<float>()[i];
    const formats::SplitF32 halves = formats::split(x);
    ASSERT_EQ(found.data<bf16>()[i].bits, halves.nearest.bits) << i;
    ASSERT_EQ(formats::float_bits(back.data<float>()[i]),
              formats::float_bits(formats::join(halves.nearest, halves.rest)))
        << i;
  }
}

}  // namespace
}  // namespace binade::optim
