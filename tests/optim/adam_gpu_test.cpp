// Adam on a GPU: the bits of the CPU.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>

#include "binade/backend/gpu.h"
#include "binade/formats/dynamic_code.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/optim/adam.h"
#include "support/values.h"

namespace binade::optim {
namespace {

struct AdamGpuCase {
  const char* name;
  DType parameter, gradient;
  int64_t elements;
  AdamOptions options;
};

const MasterOptions split_halves{.split_masters = true};
const MasterOptions rounded{.masters = false, .stochastic_rounding = true, .seed = 3};

// Lengths that fill no pack and no block of 8-bit moments, too.
const AdamGpuCase adam_gpu_cases[] = {
    {"f32", DType::f32, DType::f32, 64 * 256, {.weight_decay = 0.1}},
    {"f32, half a block", DType::f32, DType::f32, 5000, {}},
    {"f32, no packs", DType::f32, DType::f32, 4099, {.weight_decay = 0.1}},
    {"large eps", DType::f32, DType::f32, 5000, {.eps = 1e9}},
    {"tiny eps", DType::f32, DType::f32, 5000, {.eps = 1e-30}},
    {"master weights", DType::bf16, DType::f32, 5000, {}},
    {"master weights, bf16 gradients", DType::bf16, DType::bf16, 5000, {}},
    {"split", DType::bf16, DType::f32, 5000, {.master = split_halves}},
    {"split, bf16 gradients", DType::bf16, DType::bf16, 1 << 18, {.master = split_halves}},
    {"split, bf16 gradients, half a block",
     DType::bf16,
     DType::bf16,
     5000,
     {.weight_decay = 0.1, .master = split_halves}},
    {"split, bf16 gradients, no packs", DType::bf16, DType::bf16, 4099, {.master = split_halves}},
    {"stochastic rounding", DType::bf16, DType::bf16, 5000, {.master = rounded}},
    {"stochastic rounding, no packs", DType::f16, DType::f32, 4099, {.master = rounded}},
};

// Sizes that differ by far, zeros among them: scales and quotients that are subnormal.
Tensor uneven_gradient(int64_t elements, DType dtype, uint64_t step) {
  const Tensor gradient = randn({elements}, {2, step});
  float* values = gradient.mutable_data<float>();
  for (int64_t i = 0; i < elements; ++i) {
    const int64_t block = i / formats::dynamic_block;
    values[i] *= std::pow(10.0f, -static_cast<float>(block % 8 * 5 + i % 7));
    if (block % 8 == 7) values[i] = 0;
  }
  return cast(gradient, dtype);
}

void expect_same_states(Optimizer& found, Optimizer& expected) {
  for (const auto& [name, tensor] : expected.state_dict())
    EXPECT_TRUE(test::same_bits(test::on_host(found.state_dict().at(name)), tensor)) << name;
}

void expect_same_updates(const AdamGpuCase& c) {
  const auto parameters = [&](Device device) {
    std::vector<Tensor> result;
    for (const int64_t elements : {c.elements, int64_t{100}, 3 * c.elements})
      result.push_back(
          to(cast(randn({elements}, {1, 1}), c.parameter), device).set_requires_grad());
    return result;
  };
  const std::vector<Tensor> on_gpu = parameters(Device::cuda()), on_cpu = parameters(Device::cpu());
  AdamW found(on_gpu, c.options), expected(on_cpu, c.options);
  for (uint64_t step = 0; step < 15; ++step) {
    for (size_t i = 0; i < on_cpu.size(); ++i) {
      const Tensor gradient = uneven_gradient(on_cpu[i].numel(), c.gradient, 3 * step + i);
      on_cpu[i].set_grad(gradient);
      on_gpu[i].set_grad(to(gradient, Device::cuda()));
    }
    found.step();
    expected.step();
  }
  for (size_t i = 0; i < on_cpu.size(); ++i)
    EXPECT_TRUE(test::same_bits(test::on_host(on_gpu[i]), on_cpu[i])) << i;
  expect_same_states(found, expected);
}

class AdamGpu : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (backend::gpus().empty()) GTEST_SKIP() << "there is no GPU";
  }
};
INSTANTIATE_TEST_SUITE_P(Moments, AdamGpu, testing::Values(DType::f32, DType::bf16, DType::u8),
                         [](const auto& test) { return std::string(name(test.param)); });

TEST_P(AdamGpu, HasTheBitsOfTheCpu) {
  for (AdamGpuCase c : adam_gpu_cases) {
    SCOPED_TRACE(c.name);
    c.options.moments = GetParam();
    expect_same_updates(c);
  }
}

TEST_P(AdamGpu, ShowsANonFiniteGradient) {
  std::vector<double> gradient(4096, 1.0);
  gradient[300] = INFINITY;
  gradient[900] = NAN;
  gradient[2000] = 1e30;  // whose square overflows
  std::vector<std::unique_ptr<Adam>> adams;
  for (const Device device : {Device::cuda(), Device::cpu()}) {
    const Tensor w = zeros({4096}, DType::f32, device).set_requires_grad();
    adams.push_back(std::make_unique<Adam>(std::vector{w}, AdamOptions{.moments = GetParam()}));
    w.set_grad(to(tensor(gradient, {4096}), device));
    adams.back()->step();
  }
  const StateDict on_gpu = adams[0]->state_dict(), on_cpu = adams[1]->state_dict();
  for (const auto& [name, tensor] : on_cpu) {
    const auto found = to_vector(test::on_host(on_gpu.at(name))), expected = to_vector(tensor);
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_TRUE(found[i] == expected[i] || (std::isnan(found[i]) && std::isnan(expected[i])))
          << name << " " << i << ": " << found[i] << " instead of " << expected[i];
  }
}

TEST_P(AdamGpu, UpdatesPartsAsTheWhole) {
  const Part part{3 * formats::dynamic_block, 5000};
  const auto parameter = [] {
    return to(randn({10000}, {1, 1}), Device::cuda()).set_requires_grad();
  };
  const Tensor a = parameter(), b = parameter();
  AdamW whole({a}, {.moments = GetParam()}),
      own({b}, {.moments = GetParam(), .master = {.parts = {part}}});
  for (uint64_t step = 0; step < 3; ++step) {
    const Tensor gradient = to(uneven_gradient(10000, DType::f32, step), Device::cuda());
    a.set_grad(gradient);
    whole.step();
    own.use_gradients({gradient.strided({part.count}, {1}, part.begin)});
    own.step();
  }
  const Tensor all = test::on_host(a), mine = test::on_host(b);
  EXPECT_EQ(std::memcmp(mine.data<float>() + part.begin, all.data<float>() + part.begin,
                        static_cast<size_t>(part.count) * sizeof(float)),
            0);
}

}  // namespace
}  // namespace binade::optim
