#include "binade/ops/quantized/linear.h"

#include <gtest/gtest.h>

#include <cmath>

#include "binade/amp/recipe/text.h"
#include "binade/backend/gpu.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/quantized/quantize.h"
#include "support/values.h"

// The three matmuls of a linear layer with scales finer than a tensor.
namespace binade {
namespace {

struct Sizes {
  int64_t rows, in, out;
};

using Values = std::vector<double>;

struct LinearResults {
  Values y, dx, dw;
};

// Quantized data and scales are the same on every device: they come from the same f32 values.
LinearResults run(const Sizes& s, const amp::Recipe& recipe, Device device) {
  Tensor x = to(randn({s.rows, s.in}, {1, 0}), device),
         weight = to(randn({s.out, s.in}, {2, 0}), device);
  const Tensor dy = to(randn({s.rows, s.out}, {3, 0}), device);
  x.set_requires_grad();
  weight.set_requires_grad();
  const QuantizedLayer layer = with_facts(
      {.weight = weight, .recipe = &recipe, .scales = std::make_shared<amp::LayerScales>()});
  Values y;
  for (int pass = 0; pass < 2; ++pass) {  // the second adds to the gradients
    const Tensor result = quantized_linear(x, layer);
    y = test::read(result);
    result.backward(dy);
  }
  return {y, test::read(x.grad()), test::read(weight.grad())};
}

Tensor transposed(const Tensor& x) {
  return x.strided({x.size(1), x.size(0)}, {x.strides()[1], x.strides()[0]}, x.offset());
}

// [m, k] x [k, n] in double.
Values product(const Tensor& a, const Tensor& b, bool of_magnitudes = false) {
  Values left = test::read(a), right = test::read(b);
  for (Values* values : {&left, &right}) {
    for (double& value : *values) value = of_magnitudes ? std::abs(value) : value;
  }
  const int64_t m = a.size(0), k = a.size(1), n = b.size(1);
  Values sums(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t t = 0; t < k; ++t) {
      for (int64_t j = 0; j < n; ++j)
        sums[static_cast<size_t>(i * n + j)] +=
            left[static_cast<size_t>(i * k + t)] * right[static_cast<size_t>(t * n + j)];
    }
  }
  return sums;
}

// The three matmuls in double of the operands that `of` returns, whose rows lie along the sum.
template <class F>
LinearResults products(const Sizes& s, bool of_magnitudes, F of) {
  using amp::Role;
  const Tensor x = randn({s.rows, s.in}, {1, 0}), weight = randn({s.out, s.in}, {2, 0}),
               dy = randn({s.rows, s.out}, {3, 0});
  const auto multiplied = [&](const Tensor& a, const Tensor& b) {
    return product(a, transposed(b), of_magnitudes);
  };
  LinearResults result{
      multiplied(of(x, Role::input), of(weight, Role::weight)),
      multiplied(of(dy, Role::gradient), of(transposed(weight), Role::weight)),
      multiplied(of(transposed(dy), Role::gradient), of(transposed(x), Role::input))};
  for (Values* twice : {&result.dx, &result.dw}) {
    for (double& value : *twice) value *= 2;
  }
  return result;
}

LinearResults magnitudes(const Sizes& s) {
  return products(s, true, [](const Tensor& x, amp::Role) { return x; });
}

void expect_close(const Values& found, const Values& expected, const Values& sizes, double unit,
                  const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i], expected[i], unit * sizes[i]) << what << " [" << i << "]";
}

// `unit` bounds the relative rounding error of adding 32 terms; quantized values are up to an
// eighth larger than the values they represent.
void expect_close(const LinearResults& found, const LinearResults& expected, const Sizes& s,
                  const LinearResults& sizes, double unit, const std::string& what) {
  const auto loss = [&](int64_t depth) {
    return (static_cast<double>(depth) / 32 + 2) * unit * 1.125 * 1.125;
  };
  expect_close(found.y, expected.y, sizes.y, loss(s.in), what + ": y");
  expect_close(found.dx, expected.dx, sizes.dx, loss(s.out), what + ": dx");
  expect_close(found.dw, expected.dw, sizes.dw, loss(s.rows), what + ": dw");
}

// Hybrid ones and ones in e4m3 alone.
std::vector<amp::Recipe> finer_recipes() {
  std::vector<amp::Recipe> recipes;
  for (const amp::Recipe* finer :
       {&amp::recipes::row(), &amp::recipes::block(), &amp::recipes::mx()}) {
    recipes.push_back(*finer);
    recipes.push_back(*finer);
    recipes.back().tensors[amp::Role::gradient]->format = formats::spec::e4m3;
    recipes.back().fast_accumulation = false;
  }
  return recipes;
}

std::string describe(const amp::Recipe& recipe, const Sizes& s) {
  return to_text(recipe) + " " + std::to_string(s.rows) + " x " + std::to_string(s.in) + " x " +
         std::to_string(s.out);
}

constexpr Sizes all_sizes[] = {
    {128, 144, 272}, {48, 144, 80}, {272, 128, 16}, {5, 7, 3}, {100, 130, 48}};

// Each operand is quantized along the reduction axis of its matmul.
TEST(QuantizedLinear, FinerScalesMultiplyTheValuesTheyRepresent) {
  std::vector<amp::Recipe> recipes = finer_recipes();
  recipes.insert(recipes.end(), {amp::recipes::mxfp4(), amp::recipes::nvfp4_plain(),
                                 amp::recipes::mxfp8(), amp::recipes::mxfp6()});
  for (const Sizes& s : all_sizes) {
    const LinearResults sizes = magnitudes(s);
    for (const amp::Recipe& recipe : recipes) {
      const LinearResults expected = products(s, false, [&](const Tensor& x, amp::Role role) {
        return dequantize(quantize(x, recipe[role]));
      });
      expect_close(run(s, recipe, Device::cpu()), expected, s, sizes, 32 * epsilon(DType::f32),
                   describe(recipe, s));
    }
  }
}

// Inputs with one delayed scale, weights in blocks, gradients by row: each operand is quantized by
// its own recipe. The first step makes the second one's delayed scale.
TEST(QuantizedLinear, MixesTheScalesOfItsOperands) {
  using amp::Role;
  const amp::Recipe recipe = amp::parse_recipe(
      R"(row, input.group = [0, 0], input.source = "delayed", input.history = 2, )"
      R"(weight.group = [128, 128])");
  for (const Sizes& s : all_sizes) {
    const auto scales = std::make_shared<amp::LayerScales>();
    Tensor x = randn({s.rows, s.in}, {1, 0}), weight = randn({s.out, s.in}, {2, 0});
    const Tensor dy = randn({s.rows, s.out}, {3, 0});
    x.set_requires_grad();
    weight.set_requires_grad();
    const QuantizedLayer layer =
        with_facts({.weight = weight, .recipe = &recipe, .scales = scales});
    LinearResults found;
    for (int step = 0; step < 2; ++step) {
      x.zero_grad();
      weight.zero_grad();
      for (int pass = 0; pass < 2; ++pass) {  // the second adds to the gradients
        const Tensor y = quantized_linear(x, layer);
        found.y = test::read(y);
        y.backward(dy);
      }
      if (step == 0) weight.bump_version();
    }
    found.dx = test::read(x.grad());
    found.dw = test::read(weight.grad());
    float amax = 0;
    for (const double value : test::read(x))
      amax = std::max(amax, static_cast<float>(std::abs(value)));
    const double scale = (*scales)[Role::input].scale.item();
    EXPECT_FLOAT_EQ(static_cast<float>(scale), 448 / amax);
    const LinearResults expected = products(s, false, [&](const Tensor& operand, Role role) {
      return dequantize(role == Role::input ? quantize(operand, scale, DType::e4m3)
                                            : quantize(operand, recipe[role]));
    });
    expect_close(found, expected, s, magnitudes(s), 32 * epsilon(DType::f32), describe(recipe, s));
    EXPECT_FALSE((*scales)[Role::weight].defined());
    EXPECT_FALSE((*scales)[Role::gradient].defined());
  }
}

// FP8 tensor cores keep about 13 bits of a partial sum.
TEST(QuantizedLinearGpu, FinerScalesFollowTheCpu) {
  if (backend::gpus().empty()) GTEST_SKIP() << "there is no GPU";
  for (const Sizes& s : all_sizes) {
    const LinearResults sizes = magnitudes(s);
    for (const amp::Recipe& recipe : finer_recipes()) {
      expect_close(run(s, recipe, Device::cuda()), run(s, recipe, Device::cpu()), s, sizes, 0x1p-12,
                   describe(recipe, s));
    }
  }
}

}  // namespace
}  // namespace binade
