#include <gtest/gtest.h>

#include <cmath>

#include "binade/amp/recipe/state.h"
#include "binade/amp/recipe/text.h"
#include "binade/autograd/grad_mode.h"
#include "binade/backend/gpu.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/loss/loss.h"
#include "binade/ops/matmul/matmul.h"
#include "binade/ops/quantized/quantize.h"
#include "binade/ops/shape/shape.h"
#include "support/tensors.h"

// linear_cross_entropy under recipes with the roles of a head.
namespace binade::quantized_head_test {
namespace {

using amp::Recipe;
using amp::Role;

struct HeadResult {
  Tensor loss, dx, dweight;
};

// Small integers: scaled by a power of two they are exact in FP8, and so are their dot products.
Tensor integers(const Shape& shape, uint64_t stream, DType dtype, Device device) {
  return to(cast(randint(-3, 4, shape, {7, stream}), dtype), device);
}

struct HeadCase {
  int64_t rows = 24, width = 32, classes = 20, chunk = 7;
  DType dtype = DType::f32;
  Device device = Device::cpu();
  CrossEntropyOptions options = {.reduce = Reduce::sum};

  Tensor x() const { return integers({rows, width}, 1, dtype, device); }
  Tensor weight() const { return integers({classes, width}, 2, dtype, device); }
  Tensor target() const {
    Tensor result = randint(0, classes, {rows}, {7, 3});
    result.mutable_data<int64_t>()[1] = options.ignore_index;
    return to(result, device);
  }

  HeadResult run() const {
    const Tensor in = x().set_requires_grad(), w = weight().set_requires_grad();
    const Tensor loss = linear_cross_entropy(in, w, target(), options, chunk);
    loss.backward();
    return {loss.detach(), in.grad(), w.grad()};
  }
  HeadResult run(const Recipe& recipe) const {
    const amp::QuantizedAutocast fp8(recipe);
    return run();
  }
};

// Scales that are powers of two, with gradients of logits in a format.
Recipe exact_scales(const formats::Format& gradient = formats::spec::e5m2) {
  Recipe recipe = amp::recipes::delayed();
  recipe.tensors[Role::gradient]->format = gradient;
  recipe.set_head(true);
  for (const Role role : {Role::head_input, Role::head_weight})
    recipe.tensors[role]->rule = amp::ScaleRule::power_of_two;
  return recipe;
}

void expect_near(const Tensor& found, const Tensor& expected, double tolerance) {
  const std::vector<double> a = test::read(test::on_host(found)),
                            b = test::read(test::on_host(expected));
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], tolerance) << "element " << i;
}

// ||a - b|| / ||b||.
double distance(const Tensor& a, const Tensor& b) {
  const std::vector<double> found = test::read(test::on_host(a)),
                            expected = test::read(test::on_host(b));
  double difference = 0, size = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    difference += (found[i] - expected[i]) * (found[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  return std::sqrt(difference / size);
}

// Logits of integers are exact, so all errors are those of the gradients in e5m2: the oracle
// quantizes the gradients of a plain cross entropy.
TEST(QuantizedHead, QuantizesTheGradientsOfLogits) {
  for (const auto& [scale, dtype] :
       {std::pair(0x1p15, DType::e5m2), std::pair(0x1p8, DType::e4m3)}) {
    const HeadCase c;
    const HeadResult found = c.run(exact_scales(format_of(dtype)));
    const Tensor x = c.x(), weight = c.weight();
    Tensor logits = matmul(x, transpose(weight, 0, 1));
    logits.set_requires_grad();
    const Tensor loss = cross_entropy(logits, c.target(), c.options);
    loss.backward();
    EXPECT_EQ(found.loss.item(), loss.item());
    const Tensor gradient = dequantize(quantize(logits.grad(), scale, dtype));
    // f32 sums of at most 24 products of at most 3.
    constexpr double tolerance = 24 * 3 * 24 * 0x1p-24;
    expect_near(found.dx, matmul(gradient, weight), tolerance);
    expect_near(found.dweight, matmul(transpose(gradient, 0, 1), x), tolerance);
  }
}

TEST(QuantizedHead, QuantizesItsOperands) {
  HeadCase c{.chunk = 24};
  const Tensor x = test::noise({c.rows, c.width}, 1), weight = test::noise({c.classes, c.width}, 2);
  const NoGrad no_grad;
  const double plain = linear_cross_entropy(x, weight, c.target(), c.options).item();
  const double rounded = linear_cross_entropy(dequantize(quantize(x)), dequantize(quantize(weight)),
                                              c.target(), c.options)
                             .item();
  const amp::QuantizedAutocast fp8(amp::parse_recipe("delayed, head = true"));
  const double found = linear_cross_entropy(x, weight, c.target(), c.options).item();
  EXPECT_NEAR(found, rounded, 1e-5 * std::abs(rounded));  // f32 sums in another order
  EXPECT_GT(std::abs(found - plain), 1e-3);
}

// Also if one of the three matmuls is left out.
TEST(QuantizedHead, IsLeftAloneByOtherRecipes) {
  const HeadCase c{.dtype = DType::bf16};
  const HeadResult expected = c.run();
  for (const char* recipe : {"delayed", R"(delayed, head = true, matmuls = ["forward", "dgrad"])",
                             R"(delayed, head = true, matmuls = ["forward", "wgrad"])",
                             R"(delayed, head = true, matmuls = ["dgrad", "wgrad"])"}) {
    SCOPED_TRACE(recipe);
    const HeadResult found = c.run(amp::parse_recipe(recipe));
    EXPECT_TRUE(test::same_bits(found.loss, expected.loss));
    EXPECT_TRUE(test::same_bits(found.dx, expected.dx));
    EXPECT_TRUE(test::same_bits(found.dweight, expected.dweight));
  }
}

TEST(QuantizedHead, DoesNotDependOnItsChunks) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    HeadCase c{.dtype = dtype, .options = {.smoothing = 0.1}};
    const HeadResult expected = c.run(exact_scales());
    for (const int64_t chunk : {1, 5, 24}) {
      c.chunk = chunk;
      const HeadResult found = c.run(exact_scales());
      EXPECT_TRUE(test::same_bits(found.loss, expected.loss));
      EXPECT_TRUE(test::same_bits(found.dx, expected.dx));
      EXPECT_LT(distance(found.dweight, expected.dweight), dtype == DType::f32 ? 1e-6 : 1e-2);
    }
  }
}

// Vocabularies that fill no vectors, one that fits no block's shared memory, and rows in chunks.
TEST(QuantizedHeadGpu, FollowsTheCpu) {
  if (backend::gpus().empty()) GTEST_SKIP() << "there is no GPU";
  for (const HeadCase& size : {HeadCase{.rows = 48, .width = 64, .classes = 96, .chunk = 16},
                               HeadCase{.rows = 160, .width = 32, .classes = 50, .chunk = 64},
                               HeadCase{.rows = 37, .width = 48, .classes = 257, .chunk = 20},
                               HeadCase{.rows = 16, .width = 16, .classes = 131072, .chunk = 16}}) {
    for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
      for (const double smoothing : {0.0, 0.1}) {
        SCOPED_TRACE(std::to_string(size.classes) + " classes, " + std::string(name(dtype)));
        HeadCase c = size;
        c.dtype = dtype;
        c.options = {.smoothing = smoothing};
        const HeadResult expected = c.run(exact_scales());
        c.device = Device::cuda();
        const HeadResult found = c.run(exact_scales());
        EXPECT_NEAR(to(found.loss, Device::cpu()).item(), expected.loss.item(),
                    1e-5 * expected.loss.item());
        // A gradient that another exponential rounds to the next e5m2 value is off by an eighth.
        EXPECT_LT(distance(found.dx, expected.dx), 1e-2);
        EXPECT_LT(distance(found.dweight, expected.dweight), 1e-2);
      }
    }
  }
}

}  // namespace
}  // namespace binade::quantized_head_test
