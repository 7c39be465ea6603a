// Adam with 8-bit moments.
#include <gtest/gtest.h>

#include <cmath>

#include "binade/formats/dynamic_code.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/loss/loss.h"
#include "binade/ops/matmul/linear.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/optim/adam.h"

namespace binade::optim {
namespace {

constexpr int64_t count = 5000;  // the last block is not full

// Adam by a plain loop whose moments pass through encode and decode after every step.
struct Reference {
  std::vector<float> weights, first, second;
  int step = 0;

  void update(const std::vector<double>& gradient, double lr, double beta1, double beta2,
              double eps) {
    ++step;
    const double correction1 = 1 - std::pow(beta1, step), correction2 = 1 - std::pow(beta2, step);
    for (size_t i = 0; i < weights.size(); ++i) {
      const auto g = static_cast<float>(gradient[i]);
      first[i] = std::fma(static_cast<float>(beta1), first[i], static_cast<float>(1 - beta1) * g);
      second[i] =
          std::fma(static_cast<float>(beta2), second[i], static_cast<float>(1 - beta2) * g * g);
      weights[i] -= static_cast<float>(lr / correction1) * first[i] /
                    (std::sqrt(second[i]) / static_cast<float>(std::sqrt(correction2)) +
                     static_cast<float>(eps));
    }
    quantize(first, formats::DynamicSign::either);
    quantize(second, formats::DynamicSign::positive);
  }

  static void quantize(std::vector<float>& values, formats::DynamicSign sign) {
    std::vector<uint8_t> codes(values.size());
    std::vector<float> scales(values.size() / formats::dynamic_block + 1);
    const auto n = static_cast<int64_t>(values.size());
    formats::encode_dynamic(values.data(), n, {codes.data(), scales.data(), sign});
    formats::decode_dynamic({codes.data(), scales.data(), sign}, values.data(), n);
  }
};

TEST(EightBitMoments, AreThoseOfALoopThatQuantizes) {
  const Tensor w = randn({count}, {1, 1}).set_requires_grad();
  Adam adam({w}, {.lr = 1e-2, .moments = DType::u8});
  Reference reference;
  for (const double value : to_vector(w)) reference.weights.push_back(static_cast<float>(value));
  reference.first.resize(count);
  reference.second.resize(count);
  for (uint64_t step = 0; step < 6; ++step) {
    const Tensor gradient = randn({count}, {2, step}) * std::pow(10.0, -static_cast<double>(step));
    w.set_grad(gradient);
    adam.step();
    reference.update(to_vector(gradient), 1e-2, 0.9, 0.999, 1e-8);
  }
  // The kernels' rounding differs from the loop's in the last bit, which rarely moves a code.
  const auto found = to_vector(w);
  int64_t apart = 0;
  for (size_t i = 0; i < found.size(); ++i)
    apart += std::fabs(found[i] - reference.weights[i]) > 1e-5 * std::fabs(found[i]) + 1e-7;
  EXPECT_LE(apart, count / 200);
}

TEST(EightBitMoments, TakeAQuarterOfTheMemory) {
  const int64_t before = memory::allocated(memory::Category::optimizer);
  const Tensor weight = full({256 * 64}, 1).set_requires_grad(),
               bias = full({100}, 1).set_requires_grad();
  const Adam adam({weight, bias}, {.moments = DType::u8});
  // Codes and scales of the weight; the bias keeps f32.
  EXPECT_EQ(memory::allocated(memory::Category::optimizer) - before,
            2 * (256 * 64 + 64 * 4) + 2 * 100 * 4);
}

// A second moment of zero would make the update a division by eps: 1e8 times too large.
TEST(EightBitMoments, DoNotExplodeWhereGradientsDifferInSize) {
  std::vector<double> sizes(4096);
  for (size_t i = 0; i < sizes.size(); ++i) sizes[i] = std::pow(10.0, -static_cast<double>(i % 9));
  const Tensor w = zeros({4096}).set_requires_grad();
  Adam adam({w}, {.lr = 1e-3, .moments = DType::u8});
  for (int step = 0; step < 20; ++step) {
    // Every other step has no gradient, so that only the stored moments count.
    w.set_grad(step % 2 == 0 ? tensor(sizes, {4096}) : zeros({4096}));
    adam.step();
  }
  for (const double value : to_vector(w)) {
    EXPECT_TRUE(std::isfinite(value));
    EXPECT_LE(std::fabs(value), 20 * 1e-2);  // 20 steps of at most ten times the learning rate
  }
}

// A regression of 64 inputs through 128 hidden units: the loss after 200 steps.
double trained_loss(DType moments) {
  Tensor up = (randn({128, 64}, {1, 1}) * 0.1).detach(),
         down = (randn({64, 128}, {1, 2}) * 0.1).detach();
  up.set_requires_grad();
  down.set_requires_grad();
  const Tensor target = randn({64, 64}, {1, 3}) * 0.2;
  AdamW adam({up, down}, {.lr = 3e-3, .moments = moments});
  const auto loss_of = [&](uint64_t step) {
    const Tensor x = randn({32, 64}, {2, step});
    return mse_loss(linear(tanh(linear(x, up)), down), linear(x, target));
  };
  for (uint64_t step = 0; step < 200; ++step) {
    adam.zero_grad();
    loss_of(step).backward();
    adam.step();
  }
  double loss = 0;
  for (uint64_t step = 1000; step < 1010; ++step) loss += loss_of(step).item() / 10;
  return loss;
}

TEST(EightBitMoments, TrainAsWellAsF32) {
  const double wide = trained_loss(DType::f32), narrow = trained_loss(DType::u8);
  EXPECT_LT(wide, 1);  // from about 2.6
  EXPECT_NEAR(narrow, wide, 0.05 * wide);
}

TEST(EightBitMoments, ShowANonFiniteGradient) {
  const Tensor w = zeros({4096}).set_requires_grad();
  Adam adam({w}, {.moments = DType::u8});
  std::vector<double> gradient(4096, 1.0);
  gradient[300] = INFINITY;
  w.set_grad(tensor(gradient, {4096}));
  adam.step();
  const auto scales = to_vector(adam.state_dict().at("0.first_scale"));
  EXPECT_TRUE(std::isfinite(scales[0]));
  EXPECT_TRUE(std::isnan(scales[1]));
}

}  // namespace
}  // namespace binade::optim
