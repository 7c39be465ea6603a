// Common claims about mixed precision: each test computes the numbers of one claim.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "binade/binade.h"

namespace binade {
namespace {

const double infinity = std::numeric_limits<double>::infinity();

double share_of_zeros(const Tensor& x) {
  const auto values = to_vector(x);
  return static_cast<double>(std::count(values.begin(), values.end(), 0.0)) /
         static_cast<double>(values.size());
}

// The gradient of an f16 matmul whose exact size is about `size`, with the loss multiplied by
// `scale`.
Tensor f16_gradient(double size, double scale, DType dtype = DType::f16) {
  Tensor x = randn({64, 64}, {1, 1}, dtype);
  x.set_requires_grad();
  x.set_grad_dtype(dtype);
  const Tensor loss = sum(cast(x * randn({64, 64}, {1, 2}, dtype), DType::f32));
  mul(loss, size * scale).backward();
  return cast(x.grad(), DType::f32);
}

TEST(Claims, SmallF16GradientsUnderflowAndSurviveAScaleOfTwoToTheFifteen) {
  EXPECT_GT(share_of_zeros(f16_gradient(1e-9, 1)), 0.99);
  EXPECT_LT(share_of_zeros(f16_gradient(1e-9, 32768)), 0.05);
  // "f16 cannot hold anything under 6e-5" is not so: subnormals reach 5.96e-8, with fewer and fewer
  // bits.
  EXPECT_LT(share_of_zeros(f16_gradient(1e-6, 1)), 0.1);
  // bf16 needs no scaling: its exponents are those of f32.
  EXPECT_EQ(share_of_zeros(f16_gradient(1e-9, 1, DType::bf16)), 0);
}

TEST(Claims, UnscaledF16GradientsAreTheTrueOnes) {
  const auto scaled = to_vector(f16_gradient(1e-7, 32768));
  const auto truth = to_vector(f16_gradient(1e-7, 1, DType::f32));
  for (size_t i = 0; i < truth.size(); ++i) {
    // Two roundings to f16 (of the operand and of the result), half a unit in the last place each.
    const double bound = std::abs(truth[i]) * 0x1p-10 + 0x1p-25 / 32768;
    EXPECT_NEAR(scaled[i] / 32768, truth[i], bound + std::abs(truth[i]) * 0x1p-11);
  }
}

// Does a gradient of 1e-8 underflow in f16, and does it with a scale of 1024?
TEST(Claims, ExerciseOneAGradientOfTenToTheMinusEight) {
  EXPECT_EQ(float(f16(1e-8f)), 0.0f);  // under half of the smallest subnormal, 2^-25 = 2.98e-8
  const float scaled = float(f16(1e-8f * 1024));
  EXPECT_GT(scaled, 0.0f);
  EXPECT_LT(scaled, 0x1p-14f);  // a subnormal of f16, so with less than eleven bits
  EXPECT_NEAR(scaled / 1024, 1e-8, 0x1p-25 / 1024);
}

// With entries of Q and K of deviation 1, a width of 4096 and 2048 tokens, how large is the largest
// logit, before and after the division by sqrt(d)? The sum of d products of deviation 1 has
// deviation sqrt(d) = 64; the largest of n = 2048^2 normals is about sqrt(2 ln n) = 5.5 deviations.
TEST(Claims, ExerciseTwoTheLargestAttentionLogit) {
  const int64_t d = 4096, tokens = 256;
  const Tensor q = randn({tokens, d}, {7, 1}), k = randn({tokens, d}, {7, 2});
  const double largest = max(abs(matmul(q, transpose(k, 0, 1)))).item();
  const double expected = std::sqrt(static_cast<double>(d)) *
                          std::sqrt(2 * std::log(static_cast<double>(tokens * tokens)));
  EXPECT_NEAR(largest, expected, 0.15 * expected);
  EXPECT_LT(largest, 65504.0);            // deviation 1: no overflow even without the division
  EXPECT_GT(largest * 16 * 16, 65504.0);  // deviation 16: overflow
}

TEST(Claims, AttentionLogitsPastTheF16MaximumAreInfiniteThereAndNotInBf16) {
  const Tensor q = full({1, 1, 2, 64}, 40), k = full({1, 1, 2, 64}, 40), v = ones({1, 1, 2, 64});
  const auto scores = [&](DType dtype) {
    return max(matmul(cast(q, dtype), transpose(cast(k, dtype), 2, 3))).item();
  };
  EXPECT_EQ(scores(DType::f16), infinity);  // 64 * 1600 = 102400 > 65504
  EXPECT_EQ(scores(DType::bf16), 102400);
  // A softmax of it is NaN...
  EXPECT_TRUE(std::isnan(softmax(matmul(cast(q, DType::f16), transpose(cast(k, DType::f16), 2, 3)))
                             .strided({1}, {1}, 0)
                             .item()));
  // ...unless scores stay in f32, as in the fused attention.
  const Tensor fused =
      scaled_dot_product_attention(cast(q, DType::f16), cast(k, DType::f16), cast(v, DType::f16));
  EXPECT_EQ(to_vector(fused), std::vector<double>(128, 1.0));
}

TEST(Claims, SummingMicroBatchGradientsInF16LosesTheSmallOnes) {
  const auto accumulated = [](DType dtype) {
    Tensor w = zeros({1});
    w.set_requires_grad();
    w.set_grad_dtype(dtype);
    sum(w).backward();                                               // one gradient of 1
    for (int i = 0; i < 1024; ++i) sum(mul(w, 0x1p-12)).backward();  // and many small ones
    return w.grad().item();
  };
  EXPECT_EQ(accumulated(DType::f16), 1.0);  // each is under half a unit in the last place of 1
  EXPECT_EQ(accumulated(DType::f32), 1.25);
}

TEST(Claims, SmallUpdatesVanishWithoutMasters) {
  const auto after = [](optim::MasterOptions options) {
    Tensor w = ones({256}, DType::bf16);
    w.set_requires_grad();
    optim::SGD sgd({w}, {.lr = 1e-4, .master = options});
    for (int i = 0; i < 1000; ++i) {
      sgd.zero_grad();
      sum(w).backward();
      sgd.step();
    }
    return mean(w, {}, false, DType::f32).item();
  };
  EXPECT_EQ(after({.masters = false}), 1.0);  // 1e-4 is under 2^-9: the weight never changes
  EXPECT_NEAR(after({}), 0.9, 0x1p-9);        // 1000 steps of 1e-4
  EXPECT_NEAR(after({.masters = false, .stochastic_rounding = true}), 0.9,
              0.01);  // right on average
}

TEST(Claims, Fp8WithoutScalingLosesBothEndsAndAScaleBringsThemBack) {
  const Tensor small = randn({8, 64}, {3, 1}) * 1e-4, large = randn({8, 64}, {3, 2}) * 1e4;
  const auto error = [](const Tensor& x, const Quantized& q) {
    return norm(dequantize(q) - x).item() / norm(x).item();
  };
  EXPECT_EQ(share_of_zeros(dequantize(quantize(small, 1))), 1.0);   // under half of 2^-9
  EXPECT_EQ(max(abs(dequantize(quantize(large, 1)))).item(), 448);  // saturated
  EXPECT_GT(error(large, quantize(large, 1)), 0.9);
  // e4m3 has 3 bits of mantissa: its relative rounding error has a root mean square under 2^-4 /
  // sqrt(3).
  EXPECT_LT(error(small, quantize(small)), 0x1p-4 / std::sqrt(3.0));
  EXPECT_LT(error(large, quantize(large)), 0x1p-4 / std::sqrt(3.0));
}

// Regression whose loss is multiplied by 1e-8: f16 gradients are all zero unless the loss is scaled
// up again.
double trained_loss(DType dtype, bool scaling) {
  nn::Sequential model(std::make_unique<nn::Linear>(nn::LinearConfig{
                           .in = 16, .out = 32, .activation = Activation::gelu_tanh}),
                       std::make_unique<nn::Linear>(nn::LinearConfig{.in = 32, .out = 1}));
  optim::Adam adam(model.parameters(), {.lr = 1e-2, .eps = 1e-20});
  amp::GradScaler scaler({.enabled = scaling, .init_scale = 0x1p24});
  const Tensor x = randn({256, 16}, {5, 1}), target = sum(sin(x), {1}, true);
  double loss = 0;
  for (int step = 0; step < 200; ++step) {
    adam.zero_grad();
    Tensor small;
    {
      const amp::Autocast guard(dtype == DType::f32 ? DType::bf16 : dtype,
                                {.enabled = dtype != DType::f32});
      const Tensor y = model(x);
      const Tensor full = mse_loss(y, target);
      loss = full.item();
      small = mul(full, 1e-8);
    }
    scaler.scale(small).backward();
    scaler.step(adam);
    scaler.update();
  }
  return loss;
}

TEST(Claims, F16StallsWithoutScalingWhereItIsNeededAndBf16DoesNot) {
  const double start = mean(square(sum(sin(randn({256, 16}, {5, 1})), {1}))).item();
  EXPECT_LT(trained_loss(DType::f32, false), 0.2 * start);
  EXPECT_GT(trained_loss(DType::f16, false),
            0.7 * start);  // gradients are zero: nothing is learned
  EXPECT_LT(trained_loss(DType::f16, true), 0.2 * start);
  EXPECT_LT(trained_loss(DType::bf16, false), 0.2 * start);
}

TEST(Claims, OverflowSkipsBacksOffAndGrowsAgain) {
  Tensor w = full({4}, 1.0, DType::f16);
  w.set_requires_grad();
  optim::SGD sgd({w}, {.lr = 1e-3});
  amp::GradScaler scaler({.init_scale = 0x1p20, .growth_interval = 3});
  std::vector<double> scales;
  int skipped = 0;
  for (int step = 0; step < 14; ++step) {
    sgd.zero_grad();
    scaler.scale(sum(w)).backward();  // an f16 gradient of the scale itself: at most 2^15 fits
    skipped += !scaler.step(sgd).applied();
    scaler.update();
    scales.push_back(scaler.get_scale());
  }
  EXPECT_EQ(scales[0], 0x1p19);
  EXPECT_EQ(scales[4], 0x1p15);  // found after five skips
  EXPECT_EQ(scales[7], 0x1p16);  // grows after three applied steps,
  EXPECT_EQ(scales[8], 0x1p15);  // overflows and shrinks again
  EXPECT_EQ(skipped, 7);
}

// Bytes per parameter, from the allocator.
TEST(Claims, BytesPerParameter) {
  struct Bytes {
    double parameters, gradients, optimizer;
  };
  const auto measured = [](DType dtype, DType gradients, optim::AdamOptions options) {
    memory::release_cached();
    const auto live = [](memory::Category c) { return static_cast<double>(memory::allocated(c)); };
    const Bytes before{live(memory::Category::parameters), live(memory::Category::gradients),
                       live(memory::Category::optimizer)};
    nn::Linear layer({.in = 128, .out = 128, .bias = false}, {Device::cpu(), dtype});
    layer.weight.set_grad_dtype(gradients);
    optim::AdamW adam(layer.parameters(), options);
    sum(layer(ones({1, 128}, dtype))).backward();
    const double n = 128 * 128;
    return Bytes{(live(memory::Category::parameters) - before.parameters) / n,
                 (live(memory::Category::gradients) - before.gradients) / n,
                 (live(memory::Category::optimizer) - before.optimizer) / n};
  };
  const auto expect = [](const Bytes& found, double parameters, double gradients,
                         double optimizer) {
    EXPECT_EQ(found.parameters, parameters);
    EXPECT_EQ(found.gradients, gradients);
    EXPECT_EQ(found.optimizer, optimizer);
  };
  expect(measured(DType::f32, DType::f32, {}), 4, 4, 8);
  expect(measured(DType::bf16, DType::f32, {}), 2, 4, 4 + 8);
  expect(measured(DType::bf16, DType::bf16, {}), 2, 2, 4 + 8);
  expect(measured(DType::bf16, DType::bf16, {.moments = DType::bf16}), 2, 2, 4 + 4);
  expect(
      measured(DType::bf16, DType::bf16,
               {.moments = DType::bf16, .master = {.masters = false, .stochastic_rounding = true}}),
      2, 2, 4);
}

// Bytes of activations of one forward, on the meta device: the same accounting without data.
int64_t activation_bytes(std::optional<DType> autocast, DType parameters,
                         std::optional<DType> residual, bool fp8) {
  nn::GPT model(
      {.layers = 4, .width = 256, .heads = 4, .vocab = 512, .context = 256, .residual = residual},
      Device::meta(), parameters);
  const Tensor tokens = Tensor::empty({8, 256}, DType::i64, Device::meta());
  const amp::Autocast guard(autocast.value_or(DType::bf16), {.enabled = autocast.has_value()});
  const amp::QuantizedAutocast fp8_guard(
      amp::RecipeState{.enabled = fp8, .recipe = amp::recipes::delayed()});
  const int64_t before = memory::allocated(memory::Category::activations, Device::meta());
  const Tensor loss = model.loss(tokens, tokens);
  return memory::allocated(memory::Category::activations, Device::meta()) - before;
}

TEST(Claims, ActivationsHalveInSixteenBits) {
  const auto f32 = static_cast<double>(activation_bytes({}, DType::f32, {}, false));
  const auto bf16 =
      static_cast<double>(activation_bytes(DType::bf16, DType::f32, DType::bf16, false));
  const auto pure = static_cast<double>(activation_bytes({}, DType::bf16, {}, false));
  const auto fp8 =
      static_cast<double>(activation_bytes(DType::bf16, DType::f32, DType::bf16, true));
  EXPECT_NEAR(pure / f32, 0.5, 0.02);  // statistics stay in f32
  EXPECT_NEAR(bf16 / f32, 0.5, 0.07);  // and autocast keeps copies of the weights
  EXPECT_LT(fp8 / bf16, 0.85);
}

}  // namespace
}  // namespace binade
