#include <gtest/gtest.h>

#include <cmath>

#include "binade/amp/recipe/text.h"
#include "binade/ops/create/create.h"
#include "binade/ops/quantized/linear.h"
#include "support/values.h"

// A linear layer with one scale per tensor, against double arithmetic on numbers rounded by
// formats/ alone.
namespace binade {
namespace {

using Numbers = std::vector<double>;
constexpr int64_t rows_of_x = 6, width_in = 19, width_out = 11;

double largest_magnitude(const Numbers& values) {
  double amax = 0;
  for (const double value : values) amax = std::max(amax, std::abs(value));
  return amax;
}

template <class Fp8>
Numbers fp8_of(const Numbers& values, float scale, float top) {
  Numbers result;
  for (const double value : values) {
    const float scaled = std::clamp(static_cast<float>(value) * scale, -top, top);
    result.push_back(static_cast<double>(float(Fp8(scaled))) / static_cast<double>(scale));
  }
  return result;
}

// Sum over k of a[i, k] b[k, j], with any strides; `bound` gets the sum of magnitudes.
Numbers sums_of_products(int64_t m, int64_t n, int64_t k, const Numbers& a, int64_t a_row,
                         int64_t a_k, const Numbers& b, int64_t b_k, int64_t b_column,
                         Numbers& bound) {
  Numbers result(static_cast<size_t>(m * n));
  bound.assign(result.size(), 0);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t p = 0; p < k; ++p) {
        const double term = a[static_cast<size_t>(i * a_row + p * a_k)] *
                            b[static_cast<size_t>(p * b_k + j * b_column)];
        result[static_cast<size_t>(i * n + j)] += term;
        bound[static_cast<size_t>(i * n + j)] += std::abs(term);
      }
    }
  }
  return result;
}

void expect_sums(const Tensor& found, const Numbers& expected, const Numbers& magnitudes,
                 int64_t terms, const char* what) {
  const Numbers values = test::read(found);
  ASSERT_EQ(values.size(), expected.size()) << what;
  for (size_t i = 0; i < values.size(); ++i) {
    // One rounding for each term, and a few for the scales and the bias.
    const double bound = static_cast<double>(terms + 8) * epsilon(DType::f32) * magnitudes[i];
    ASSERT_NEAR(values[i], expected[i], bound) << what << " [" << i << "]";
  }
}

struct Scales {
  float x, w, dy;
};

// Runs the layer once and compares its three products, and the bias and its gradient.
void expect_products(const amp::Recipe& recipe, const std::shared_ptr<amp::LayerScales>& kept,
                     const Scales& scales) {
  Tensor x = randn({rows_of_x, width_in}, {1, 0}), w = randn({width_out, width_in}, {2, 0}),
         bias = randn({width_out}, {4, 0});
  const Tensor dy = randn({rows_of_x, width_out}, {3, 0});
  for (Tensor* leaf : {&x, &w, &bias}) leaf->set_requires_grad();
  const Tensor y = quantized_linear(
      x, with_facts({.weight = w, .bias = bias, .recipe = &recipe, .scales = kept}));
  y.backward(dy);
  const bool hybrid = recipe[amp::Role::gradient].format == formats::spec::e5m2;
  const Numbers qx = fp8_of<e4m3>(test::read(x), scales.x, 448),
                qw = fp8_of<e4m3>(test::read(w), scales.w, 448),
                qdy = hybrid ? fp8_of<e5m2>(test::read(dy), scales.dy, 57344)
                             : fp8_of<e4m3>(test::read(dy), scales.dy, 448);
  Numbers bound;
  Numbers expected =
      sums_of_products(rows_of_x, width_out, width_in, qx, width_in, 1, qw, 1, width_in, bound);
  const Numbers added = test::read(bias);
  for (size_t i = 0; i < expected.size(); ++i) {
    expected[i] += added[i % width_out];
    bound[i] += std::abs(added[i % width_out]);
  }
  expect_sums(y, expected, bound, width_in, "y");
  expected =
      sums_of_products(rows_of_x, width_in, width_out, qdy, width_out, 1, qw, width_in, 1, bound);
  expect_sums(x.grad(), expected, bound, width_out, "dx");
  expected =
      sums_of_products(width_out, width_in, rows_of_x, qdy, 1, width_out, qx, width_in, 1, bound);
  expect_sums(w.grad(), expected, bound, rows_of_x, "dw");
  Numbers ones(static_cast<size_t>(rows_of_x), 1.0);
  expected =
      sums_of_products(1, width_out, rows_of_x, ones, 0, 1, test::read(dy), width_out, 1, bound);
  expect_sums(bias.grad(), expected, bound, rows_of_x, "db");
}

Scales scales_of_amaxes(bool hybrid) {
  const auto amax = [](const Shape& shape, uint64_t seed) {
    return static_cast<float>(largest_magnitude(test::read(randn(shape, {seed, 0}))));
  };
  return {448 / amax({rows_of_x, width_in}, 1), 448 / amax({width_out, width_in}, 2),
          (hybrid ? 57344 : 448) / amax({rows_of_x, width_out}, 3)};
}

TEST(LinearScales, CurrentOnesComeFromTheTensorsThemselves) {
  expect_products(amp::recipes::current(), std::make_shared<amp::LayerScales>(),
                  scales_of_amaxes(true));
  expect_products(amp::parse_recipe(R"(current, format = "e4m3")"),
                  std::make_shared<amp::LayerScales>(), scales_of_amaxes(false));
}

// Delayed ones start at 1, and are whatever the past made them: here, too large for some values.
TEST(LinearScales, DelayedOnesComeFromThePast) {
  using amp::Role;
  const amp::Recipe recipe = amp::parse_recipe("delayed, history = 4");
  expect_products(recipe, std::make_shared<amp::LayerScales>(), {1, 1, 1});
  const auto kept = std::make_shared<amp::LayerScales>();
  const std::pair<Role, double> scales[] = {
      {Role::input, 300}, {Role::weight, 64}, {Role::gradient, 0.5}};
  for (const auto& [role, scale] : scales) {
    amp::ScaleStream& stream = (*kept)[role];
    stream.create(4, Device::cpu());
    test::fill(stream.scale, scale);
    test::fill(stream.scale_inv, static_cast<float>(1 / scale));
  }
  expect_products(recipe, kept, {300, 64, 0.5});
}

}  // namespace
}  // namespace binade
