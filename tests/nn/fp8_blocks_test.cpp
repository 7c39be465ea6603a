#include <gtest/gtest.h>

#include "binade/amp/autocast.h"
#include "binade/amp/recipe/state.h"
#include "binade/amp/recipe/text.h"
#include "binade/amp/trace.h"
#include "binade/backend/backend.h"
#include "binade/backend/gpu.h"
#include "binade/base/random.h"
#include "binade/nn/language_model.h"
#include "binade/nn/norm_linear.h"
#include "binade/ops/create/copy.h"
#include "binade/optim/adam.h"
#include "support/tensors.h"

// Under a delayed recipe blocks run fused ops, unless the thread has an observer.
namespace binade::nn {
namespace {

using amp::Recipe;

class IdleObserver : public autograd::OpObserver {
  void forward(Op, std::span<const Tensor>, std::span<const Tensor>,
               std::span<const Tensor>) override {}
  void after_backward(const autograd::Node&, std::span<const Tensor>) override {}
};

class Fp8Mlp : public ::testing::TestWithParam<Device> {
 protected:
  MLP mlp{{.width = 32, .hidden = 128, .gated = true, .bias = false}, {GetParam()}};
  Tensor x = Tensor::empty({256, 32}, DType::bf16, GetParam()).set_requires_grad();
  amp::Autocast autocast{DType::bf16};
  amp::QuantizedAutocast fp8{amp::recipes::delayed()};

  Fp8Mlp() { backend::of(x).elementwise.fill(x, 1); }

  // Bytes of activations at the peak of a forward, and of a forward and backward, less those
  // before.
  std::pair<int64_t, int64_t> peaks() {
    const Tensor dy = x.detach();
    const auto now = [] { return memory::statistics(GetParam()); };
    const auto activations = static_cast<size_t>(memory::Category::activations);
    const int64_t before = now().live[activations];
    memory::reset_peak(GetParam());
    const Tensor y = mlp(x);
    const int64_t forward = now().at_peak[activations] - before;
    memory::reset_peak(GetParam());
    y.backward(dy);
    return {forward, now().at_peak[activations] - before};
  }
};

TEST_P(Fp8Mlp, StoresNeitherSwigluNorItsGradient) {
  IdleObserver observer;
  peaks();  // gradients and histories exist from the second on
  const auto [forward, backward] = peaks();
  const autograd::OpObserverScope observed(&observer);
  const auto [plain_forward, plain_backward] = peaks();
  EXPECT_EQ(plain_forward - forward, 256 * 128 * 2);  // swiglu in bf16
  // Its gradient takes two bytes an element in bf16 and one in FP8; one op frees the FP8 data of
  // swiglu later than three ops do. Scales and amaxes are a few bytes.
  EXPECT_NEAR(static_cast<double>(plain_backward - backward), 256 * 256 - 256 * 128, 64);
}

// A trace lists the ops one by one.
TEST_P(Fp8Mlp, IsTracedAsThreeOps) {
  std::vector<std::string> seen;
  for (const amp::TracedOp& op : amp::explain([&] { mlp(x); }))
    seen.push_back(std::string(name(op.op)) + " " + op.module);
  EXPECT_EQ(seen, (std::vector<std::string>{"linear up", "swiglu ", "linear down"}));
}

INSTANTIATE_TEST_SUITE_P(On, Fp8Mlp, ::testing::Values(Device::cpu(), Device::meta()),
                         [](const auto& info) { return to_string(info.param); });

// A block stores its norms in FP8 alone. At the forward's peak, in an MLP eight times as wide as
// the model, the second norm's bf16 result is missing (the first one's is freed by then).
TEST(Fp8Block, StoresNoNorm) {
  const Device meta = Device::meta();
  TransformerBlock block({.attention = {.width = 32, .heads = 2, .bias = false},
                          .mlp = {.width = 32, .hidden = 256, .gated = true, .bias = false},
                          .norm = NormKind::rms},
                         {meta});
  const Tensor x = Tensor::empty({4, 64, 32}, DType::bf16, meta).set_requires_grad();
  const amp::Autocast autocast(DType::bf16);
  const amp::QuantizedAutocast fp8(amp::recipes::delayed());
  const auto peak = [&] {
    const int64_t before = memory::allocated(meta);
    memory::reset_peak(meta);
    block.forward(x, x);
    return memory::peak(meta) - before;
  };
  peak();
  const int64_t fused = peak();
  IdleObserver observer;
  const autograd::OpObserverScope observed(&observer);
  EXPECT_NEAR(static_cast<double>(peak() - fused), 256 * 256 * 2 + 256 * 32 * 2, 64);
}

// The state after three steps, observed or not.
StateDict trained(LanguageModel& model, const Recipe& recipe, Device device, bool observed) {
  IdleObserver observer;
  const autograd::OpObserverScope scope(observed ? &observer : nullptr);
  random::context() = {};  // of dropout
  optim::AdamW adam(model.parameters(), {.lr = 1e-2});
  for (int step = 0; step < 3; ++step) {
    for (int micro = 0; micro < 2; ++micro) {
      const Tensor tokens = Tensor::empty({2, 16}, DType::i64);
      for (int64_t i = 0; i < tokens.numel(); ++i)
        tokens.mutable_data<int64_t>()[i] = (i * 7 + step * 5 + micro) % 11;
      const Tensor here = to(tokens, device);
      const amp::Autocast autocast(DType::bf16);
      const amp::QuantizedAutocast fp8(recipe);
      model.loss(here, here).backward();
    }
    adam.step();
    adam.zero_grad();
  }
  return model.state_dict();
}

void expect_same_training(Device device) {
  const Recipe recipe = amp::parse_recipe("delayed, history = 2");
  for (const bool llama : {false, true}) {
    for (const bool recompute : {false, true}) {
      for (const std::optional<DType> residual :
           {std::optional<DType>(), std::optional(DType::bf16)}) {
        SCOPED_TRACE((llama ? "llama " : "gpt ") + std::to_string(recompute) +
                     (residual ? " bf16" : ""));
        StateDict states[2];
        for (const bool observed : {false, true}) {
          std::unique_ptr<LanguageModel> model;
          if (llama) {
            model = std::make_unique<Llama>(
                LlamaConfig{.layers = 2,
                            .width = 32,
                            .heads = 2,
                            .hidden = 48,
                            .vocab = 16,
                            .context = 16,
                            .residual = residual,
                            .activations = nn::Activations::recompute(recompute)},
                device);
          } else {
            model = std::make_unique<GPT>(
                GPTConfig{.layers = 2,
                          .width = 32,
                          .heads = 2,
                          .vocab = 16,
                          .context = 16,
                          .dropout = 0.1,
                          .residual = residual,
                          .activations = nn::Activations::recompute(recompute)},
                device);
          }
          states[observed] = trained(*model, recipe, device, observed);
        }
        ASSERT_EQ(states[0].size(), states[1].size());
        for (const auto& [name, value] : states[0])
          EXPECT_TRUE(test::same_bits(value, states[1].at(name))) << name;
      }
    }
  }
}

TEST(Fp8Blocks, TrainTheSameWhetherObservedOrNot) { expect_same_training(Device::cpu()); }

TEST(Fp8BlocksGpu, TrainTheSameWhetherObservedOrNot) {
  if (backend::gpus().empty()) GTEST_SKIP() << "there is no GPU";
  expect_same_training(Device::cuda());
}

TEST(FusedNorm, LinearAndMlpAreTheirParts) {
  NormLinear linear({.linear = {.in = 24, .out = 40}});
  NormMLP mlp({.mlp = {.width = 24, .hidden = 40, .gated = true}, .norm = NormKind::rms});
  const Tensor x = test::noise({6, 24}, 1);
  const amp::QuantizedAutocast fp8(amp::recipes::delayed());
  for (Layer* layer : {static_cast<Layer*>(&linear), static_cast<Layer*>(&mlp)}) {
    Tensor results[2], gradients[2];
    for (const bool observed : {false, true}) {
      IdleObserver observer;
      const autograd::OpObserverScope scope(observed ? &observer : nullptr);
      Tensor leaf = x.detach().set_requires_grad();
      results[observed] = (*layer)(leaf);
      results[observed].backward(test::noise(results[observed].shape(), 2));
      gradients[observed] = leaf.grad();
    }
    EXPECT_TRUE(test::same_bits(results[0], results[1]));
    EXPECT_TRUE(test::same_bits(gradients[0], gradients[1]));
  }
}

}  // namespace
}  // namespace binade::nn
