#include "binade/ops/fp8_mlp.h"

#include <gtest/gtest.h>

#include "binade/amp/autocast.h"
#include "binade/amp/trace.h"
#include "binade/autograd/variable.h"
#include "binade/backend/backend.h"
#include "binade/backend/gpu.h"
#include "binade/nn/transformer.h"
#include "binade/ops/activation.h"
#include "binade/ops/fp8_linear.h"
#include "support/tensors.h"

// The fused op is its composite bit for bit: results, gradients, and what both states note.
namespace binade {
namespace {

using amp::Fp8Recipe;

struct Case {
  int64_t rows = 48, in = 32, width = 64, out = 32;
  DType type = DType::bf16;  // of autocast; f32: none
  bool bias = false;
  bool trains_up = true, trains_down = true, trains_x = true;
  Fp8Recipe recipe = {.history = 3};
};

Tensor composite(const Tensor& x, const Fp8Layer& up, const Fp8Layer& down) {
  const auto apply = [](const Tensor& in, const Fp8Layer& layer) {
    return fp8_linear(in, layer.weight, layer.bias, Activation::none, *layer.recipe, layer.state);
  };
  return apply(swiglu(apply(x, up)), down);
}

// Everything that three steps of two micro-batches leave.
std::vector<Tensor> run(const Case& c, Device device,
                        Tensor (*mlp)(const Tensor&, const Fp8Layer&, const Fp8Layer&)) {
  const auto parameter = [&](const Shape& shape, uint64_t stream, bool trains) {
    Tensor x = test::noise(shape, stream, DType::f32, device);
    if (trains) x.set_requires_grad();
    return x;
  };
  const auto layer = [&](int64_t in, int64_t out, uint64_t stream, bool trains) {
    return Fp8Layer{parameter({out, in}, stream, trains),
                    c.bias ? parameter({out}, stream + 1, trains) : Tensor(), &c.recipe,
                    std::make_shared<amp::Fp8Linear>()};
  };
  const Fp8Layer up = layer(c.in, 2 * c.width, 1, c.trains_up),
                 down = layer(c.width, c.out, 3, c.trains_down);
  std::vector<Tensor> left;
  for (uint64_t step = 0; step < 3; ++step) {
    for (uint64_t micro = 0; micro < 2; ++micro) {
      const amp::Autocast autocast(c.type == DType::f32 ? DType::bf16 : c.type,
                                   c.type != DType::f32);
      Tensor x = test::noise({2, c.rows / 2, c.in}, 10 + step * 2 + micro, c.type, device);
      if (c.trains_x) x.set_requires_grad();
      const Tensor y = mlp(x, up, down);
      left.push_back(y.detach());
      if (!y.requires_grad()) continue;
      y.backward(test::noise(y.shape(), 20 + step, y.dtype(), device));
      if (c.trains_x) left.push_back(x.grad());
    }
    // A changed weight is what ends a step.
    for (const Tensor& weight : {up.weight, down.weight}) weight.bump_version();
  }
  for (const Fp8Layer* layer : {&up, &down}) {
    for (const Tensor& x : {layer->weight, layer->bias}) {
      if (x.defined() && x.requires_grad()) left.push_back(x.grad());
    }
    for (const amp::Fp8Stream* stream :
         {&layer->state->input, &layer->state->weight, &layer->state->gradient}) {
      for (const Tensor& x : {stream->history, stream->scale, stream->pending, stream->dropped})
        left.push_back(x);
    }
  }
  return left;
}

void expect_equal(const Case& c, Device device) {
  const std::vector<Tensor> fused = run(c, device, fp8_swiglu_mlp),
                            expected = run(c, device, composite);
  ASSERT_EQ(fused.size(), expected.size());
  for (size_t i = 0; i < fused.size(); ++i)
    EXPECT_TRUE(test::same_bits(fused[i], expected[i])) << "result " << i;
}

void expect_equal_in_all_cases(Device device) {
  const std::pair<const char*, Case> cases[] = {
      {"bf16", {}},
      {"f16", {.type = DType::f16}},
      {"no autocast", {.type = DType::f32}},
      {"ragged", {.rows = 38, .in = 19, .width = 27, .out = 11}},
      {"large", {.rows = 272, .in = 48, .width = 144, .out = 160}},
      {"bias", {.bias = true}},
      {"up is frozen", {.trains_up = false}},
      {"down is frozen", {.trains_down = false}},
      {"only down trains", {.trains_up = false, .trains_x = false}},
      {"x wants nothing", {.trains_x = false}},
      {"nothing trains", {.trains_up = false, .trains_down = false, .trains_x = false}},
      {"e4m3 everywhere", {.recipe = {.format = amp::Fp8Format::e4m3, .history = 2}}}};
  for (const auto& [name, one] : cases) {
    SCOPED_TRACE(name);
    expect_equal(one, device);
  }
}

TEST(Fp8SwigluMlp, IsItsComposite) { expect_equal_in_all_cases(Device::cpu()); }

TEST(Fp8SwigluMlpGpu, IsItsComposite) {
  if (backend::gpus().empty()) GTEST_SKIP() << "there is no GPU";
  expect_equal_in_all_cases(Device::cuda());
}

class Mlp : public testing::TestWithParam<Device> {
 protected:
  nn::MLP mlp{{.width = 32, .hidden = 128, .gated = true, .bias = false}, {GetParam()}};
  Tensor x = Tensor::empty({256, 32}, DType::bf16, GetParam()).set_requires_grad();
  amp::Autocast autocast{DType::bf16};
  amp::Fp8Autocast fp8{Fp8Recipe{}};

  Mlp() { backend::of(x).elementwise.fill(x, 1); }

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

TEST_P(Mlp, StoresNeitherSwigluNorItsGradient) {
  class Looking : public autograd::Watch {
    void forward(Op, std::span<const Tensor>, std::span<const Tensor>,
                 std::span<const Tensor>) override {}
    void after_backward(const autograd::Node&, std::span<const Tensor>) override {}
  } looking;
  peaks();  // gradients and histories exist from the second on
  const auto [forward, backward] = peaks();
  const autograd::WatchScope watching(&looking);
  const auto [plain_forward, plain_backward] = peaks();
  EXPECT_EQ(plain_forward - forward, 256 * 128 * 2);  // swiglu in bf16
  // Its gradient takes two bytes an element or its codes' one; one op lets go of the codes of
  // swiglu later than three. Scales and amaxes are a few bytes.
  EXPECT_NEAR(static_cast<double>(plain_backward - backward), 256 * 256 - 256 * 128, 64);
}

// Who looks sees the ops one by one.
TEST_P(Mlp, IsTracedAsThreeOps) {
  std::vector<std::string> seen;
  for (const amp::TracedOp& op : amp::explain([&] { mlp(x); }))
    seen.push_back(std::string(name(op.op)) + " " + op.module);
  EXPECT_EQ(seen, (std::vector<std::string>{"linear up", "swiglu ", "linear down"}));
}

INSTANTIATE_TEST_SUITE_P(On, Mlp, testing::Values(Device::cpu(), Device::meta()),
                         [](const auto& info) { return to_string(info.param); });

}  // namespace
}  // namespace binade
