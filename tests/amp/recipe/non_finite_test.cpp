#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "binade/amp/autocast.h"
#include "binade/amp/grad_scaler.h"
#include "binade/amp/recipe/state.h"
#include "binade/amp/recipe/text.h"
#include "binade/autograd/grad_mode.h"
#include "binade/backend/gpu.h"
#include "binade/nn/init.h"
#include "binade/nn/linear.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/quantized/quantize.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/optim/sgd.h"
#include "support/error_of.h"
#include "support/values.h"

// A value that is not finite never passes a quantizer unseen, whatever the recipe.
namespace binade {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

// Those that the device can run, and the same in e4m3 alone.
std::vector<amp::Recipe> all_recipes(Device device) {
  std::vector<amp::Recipe> recipes;
  for (const amp::Recipe* recipe : amp::recipes::all()) {
    if (!test::error_of([&] { recipe->check_device(device); }).empty()) continue;
    const bool has_8_bits = (*recipe)[amp::Role::input].format.bits() == 8;
    recipes.push_back(*recipe);
    if (has_8_bits) recipes.push_back(amp::parse_recipe(recipe->name + ", format = \"e4m3\""));
  }
  return recipes;
}

bool all_are_finite(const Tensor& x) {
  for (const double value : test::read(x)) {
    if (!std::isfinite(value)) return false;
  }
  return true;
}

Tensor row_of(const Tensor& x, int64_t row) {
  return x.strided({x.size(1)}, {1}, x.offset() + row * x.strides()[0]);
}

// x [rows, columns] of ordinary values with one that is not.
Tensor with_one(double special, DType dtype, Device device) {
  Tensor x = to(randn({5, 48}, {7, 0}, dtype), device);
  const NoGrad no_grad;
  fill_(x.strided({1}, {1}, 3 * 48 + 37), special);
  return x;
}

void expect_specials_are_kept(Device device) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const DType type : {DType::e4m3, DType::e5m2}) {
      for (const double special : {infinite, -infinite, std::nan("")}) {
        SCOPED_TRACE(std::string(name(dtype)) + " to " + std::string(name(type)));
        const Tensor x = with_one(special, dtype, device);
        const double found = test::read(dequantize(quantize(x, 3.0, type)))[3 * 48 + 37];
        // e4m3 has no infinities.
        if (type == DType::e5m2 && !std::isnan(special)) {
          EXPECT_EQ(found, special);
        } else {
          EXPECT_TRUE(std::isnan(found)) << found;
        }
      }
    }
  }
  // Finite values saturate, also where their product with the scale overflows f32.
  const Tensor large = to(full({1, 32}, 3e38), device);
  EXPECT_EQ(test::read(quantize(large, 1e30, DType::e4m3).data)[0], 448);
  EXPECT_EQ(test::read(quantize(large, 1e30, DType::e5m2).data)[0], 57344);
}

TEST(NonFinite, StaysSo) { expect_specials_are_kept(Device::cpu()); }
TEST(NonFiniteGpu, StaysSo) {
  if (backend::gpus().empty()) GTEST_SKIP() << "there is no GPU";
  expect_specials_are_kept(Device::cuda());
}

void expect_results_show_it(Device device) {
  for (const amp::Recipe& recipe : all_recipes(device)) {
    for (const double special : {infinite, -infinite, std::nan("")}) {
      SCOPED_TRACE(amp::to_text(recipe) + " " + std::to_string(special));
      nn::init::restart(5);
      nn::Linear layer({.in = 48, .out = 32, .bias = false}, {device});
      const amp::Autocast cast(DType::bf16);
      const amp::QuantizedAutocast quantized(recipe);
      const Tensor y = layer(with_one(special, DType::f32, device));
      EXPECT_FALSE(all_are_finite(row_of(y, 3)));
      EXPECT_TRUE(all_are_finite(row_of(y, 2)));
    }
  }
}

TEST(NonFinite, InputsShowInTheResult) { expect_results_show_it(Device::cpu()); }
TEST(NonFiniteGpu, InputsShowInTheResult) {
  if (backend::gpus().empty()) GTEST_SKIP() << "there is no GPU";
  expect_results_show_it(Device::cuda());
}

// Layers without a bias, whose gradient would show an infinite by itself.
void expect_steps_are_skipped(Device device) {
  for (const amp::Recipe& recipe : all_recipes(device)) {
    SCOPED_TRACE(amp::to_text(recipe));
    nn::init::restart(5);
    nn::Linear first({.in = 48, .out = 32, .bias = false}, {device}),
        second({.in = 32, .out = 16, .bias = false}, {device});
    optim::SGD sgd({first.weight, second.weight}, {.lr = 1e-6});
    amp::GradScaler scaler({.init_scale = 0x1p24, .device = device});
    const Tensor x = to(randn({8, 48}, {9, 0}), device);
    int applied = 0;
    bool first_is_applied = false;
    for (int step = 0; step < 16; ++step) {
      sgd.zero_grad();
      const amp::Autocast cast(DType::f16);
      const amp::QuantizedAutocast quantized(recipe);
      const Tensor y = second(first(x));
      scaler.scale(sum(y)).backward();  // gradients of 2^24 are infinite in f16
      const amp::StepReport report = scaler.step(sgd);
      scaler.update();
      applied += report.applied() ? 1 : 0;
      if (step == 0) first_is_applied = report.applied();
    }
    EXPECT_FALSE(first_is_applied);
    EXPECT_GT(applied, 0);  // the scale has fallen
    EXPECT_LE(scaler.get_scale(), 0x1p16);
    EXPECT_TRUE(all_are_finite(first.weight) && all_are_finite(second.weight));
  }
}

TEST(NonFinite, GradientsAreFoundByTheScaler) { expect_steps_are_skipped(Device::cpu()); }
TEST(NonFiniteGpu, GradientsAreFoundByTheScaler) {
  if (backend::gpus().empty()) GTEST_SKIP() << "there is no GPU";
  expect_steps_are_skipped(Device::cuda());
}

}  // namespace
}  // namespace binade
