#include "binade/lab/layer_stats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "binade/binade.h"

namespace binade::lab {
namespace {

using Matrix = std::vector<std::vector<double>>;

// Small enough that every row and column is in the sample. Powers of two and values near them, one
// far above the rest.
const Matrix inputs = {{1, -0.3, 2e-6, 100}, {0.7, 1e-9, -5, 3}, {0, 0.26, 1.5, -60}};
const Matrix weights = {{0.5, 0.11, -0.02, 0.003}, {-0.25, 1e-7, 0.9, 0.04}};
const Matrix gradients = {{1e-4, -3e-5}, {2e-9, 7e-4}, {0, 5e-4}};

TEST(MatchesModule, TakesPatternsAndModulesWithAllBelowThem) {
  EXPECT_TRUE(matches_module("blocks.*.mlp", "blocks.10.mlp.up"));
  EXPECT_TRUE(matches_module("blocks.0", "blocks.0.attention.qkv"));
  EXPECT_TRUE(matches_module("*.up", "blocks.0.mlp.up"));
  EXPECT_FALSE(matches_module("blocks.1", "blocks.10.mlp.up"));
  EXPECT_FALSE(matches_module("mlp", "blocks.0.mlp.up"));
}

Tensor tensor_of(const Matrix& m) {
  std::vector<double> values;
  for (const auto& row : m) values.insert(values.end(), row.begin(), row.end());
  return tensor(values, {static_cast<int64_t>(m.size()), static_cast<int64_t>(m[0].size())});
}

double amax_of(const Matrix& m) {
  double amax = 0;
  for (const auto& row : m) {
    for (const double value : row) amax = std::max(amax, std::abs(value));
  }
  return amax;
}

template <class Fp8>
Matrix rounded(const Matrix& m, double top) {
  const double scale = top / amax_of(m);
  Matrix result = m;
  for (auto& row : result) {
    for (double& value : row) {
      const double scaled = static_cast<float>(value) * static_cast<float>(scale);
      value = static_cast<double>(Fp8(static_cast<float>(std::clamp(scaled, -top, top)))) / scale;
    }
  }
  return result;
}

Matrix transposed(const Matrix& m) {
  Matrix result(m[0].size(), std::vector<double>(m.size()));
  for (size_t i = 0; i < m.size(); ++i) {
    for (size_t j = 0; j < m[i].size(); ++j) result[j][i] = m[i][j];
  }
  return result;
}

// a b^T.
Matrix product(const Matrix& a, const Matrix& b) {
  Matrix result(a.size(), std::vector<double>(b.size()));
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < b.size(); ++j) {
      for (size_t k = 0; k < a[i].size(); ++k) result[i][j] += a[i][k] * b[j][k];
    }
  }
  return result;
}

double harm_of(const Matrix& truth, const Matrix& low) {
  const Matrix a = transposed(truth), b = transposed(low);  // columns as rows
  double sum = 0;
  int counted = 0;
  for (size_t j = 0; j < a.size(); ++j) {
    double signal = 0, noise = 0;
    for (size_t i = 0; i < a[j].size(); ++i) {
      signal += a[j][i] * a[j][i];
      noise += (a[j][i] - b[j][i]) * (a[j][i] - b[j][i]);
    }
    if (signal == 0) continue;
    sum += std::min(1.0, noise / signal);
    ++counted;
  }
  return sum / counted;
}

MatmulStats expected_of(const Matrix& a, const Matrix& low_a, const Matrix& b,
                        const Matrix& low_b) {
  const Matrix truth = product(a, b), low = product(low_a, low_b);
  double signal = 0, noise = 0;
  for (size_t i = 0; i < truth.size(); ++i) {
    for (size_t j = 0; j < truth[i].size(); ++j) {
      signal += truth[i][j] * truth[i][j];
      noise += (truth[i][j] - low[i][j]) * (truth[i][j] - low[i][j]);
    }
  }
  return {10 * std::log10(signal / noise),
          std::max({harm_of(truth, low), harm_of(a, low_a), harm_of(b, low_b)})};
}

void expect_near(const MatmulStats& found, const MatmulStats& expected, const char* what) {
  EXPECT_NEAR(found.sqnr, expected.sqnr, 1e-3) << what;
  EXPECT_NEAR(found.harm, expected.harm, 1e-5) << what;
}

LayerStats observed(const amp::Recipe& recipe) {
  const Tensor w = tensor_of(weights).set_requires_grad(),
               x = tensor_of(inputs).set_requires_grad();
  LayerStatistics statistics(recipe, {});
  const autograd::OpObserverScope watching(&statistics);
  const autograd::ModuleScope module("layer");
  linear(x, w).backward(tensor_of(gradients));
  const std::vector<LayerStats> ranking = statistics.ranking();
  EXPECT_EQ(ranking.size(), 1u);
  return ranking.at(0);
}

TEST(LayerStats, OfThreeProductsAreThoseOfTheDefinition) {
  const LayerStats found = observed(amp::recipes::current());
  EXPECT_EQ(found.module, "layer");
  const Matrix x = rounded<e4m3>(inputs, 448), w = rounded<e4m3>(weights, 448),
               dy = rounded<e5m2>(gradients, 57344);
  expect_near(found.forward, expected_of(inputs, x, weights, w), "forward");
  expect_near(found.dgrad, expected_of(gradients, dy, transposed(weights), transposed(w)), "dgrad");
  expect_near(found.wgrad,
              expected_of(transposed(gradients), transposed(dy), transposed(inputs), transposed(x)),
              "wgrad");
  EXPECT_EQ(found.harm(), std::max({found.forward.harm, found.dgrad.harm, found.wgrad.harm}));
}

TEST(LayerStats, CountWhatAFormatLoses) {
  const LayerStats found = observed(amp::recipes::current());
  EXPECT_FLOAT_EQ(static_cast<float>(found.input.amax), 100);
  EXPECT_FLOAT_EQ(static_cast<float>(found.gradient.amax), 7e-4f);
  // f16, bf16, e4m3, e5m2. Half of f16's smallest is 3e-8: of the inputs, 1e-9; of the gradients,
  // 2e-9; of the weights, none.
  EXPECT_DOUBLE_EQ(found.input.out_of_range[0].underflow, 1.0 / 12);
  EXPECT_DOUBLE_EQ(found.weight.out_of_range[0].underflow, 0);
  EXPECT_DOUBLE_EQ(found.gradient.out_of_range[0].underflow, 1.0 / 6);
  EXPECT_DOUBLE_EQ(found.input.out_of_range[1].underflow, 0);
  // e4m3 by its scale of 4.48 holds inputs from 2^-10 / 4.48 = 2.2e-4 on: 2e-6 and 1e-9 are lost;
  // weights, by 448 / 0.9, from 2e-6 on: 1e-7 is.
  EXPECT_DOUBLE_EQ(found.input.out_of_range[2].underflow, 2.0 / 12);
  EXPECT_DOUBLE_EQ(found.weight.out_of_range[2].underflow, 1.0 / 8);
  // e5m2 by 57344 / 7e-4 holds gradients from 9e-14 on.
  EXPECT_DOUBLE_EQ(found.gradient.out_of_range[3].underflow, 0);
  for (const TensorStats* stats : {&found.input, &found.weight, &found.gradient}) {
    for (const OutOfRange& share : stats->out_of_range) EXPECT_EQ(share.saturate, 0);
  }
}

// 1 - 0.4465 - 0.5537 is -0.0002. In e4m3 the three are 1, 0.4643 and 0.5714: the error is many
// times the result, and counts as all of it.
TEST(LayerStats, HarmIsAtMostAllOfTheSignal) {
  LayerStatistics statistics(amp::recipes::current(), {});
  {
    const autograd::OpObserverScope watching(&statistics);
    linear(tensor({1, 1, 1}, {1, 3}), tensor({1, -0.4465, -0.5537}, {1, 3}));
  }
  const LayerStats found = statistics.ranking().at(0);
  EXPECT_EQ(found.forward.harm, 1);
  EXPECT_LT(found.forward.sqnr, -40);
}

// Of 64 rows every second one is in the sample: the first half holds ones, the second values that
// f16 rounds to zero.
TEST(LayerStats, OfLargeMatricesTakeRowsFromTheFirstToTheLast) {
  Matrix x(64, std::vector<double>(4, 1));
  for (size_t i = 32; i < x.size(); ++i) x[i].assign(4, 1e-9);
  LayerStatistics statistics(amp::recipes::current(), {});
  {
    const autograd::OpObserverScope watching(&statistics);
    linear(tensor_of(x), tensor_of(weights));
  }
  const LayerStats found = statistics.ranking().at(0);
  EXPECT_DOUBLE_EQ(found.input.out_of_range[0].underflow, 0.5);
  EXPECT_DOUBLE_EQ(found.input.out_of_range[1].underflow, 0);
}

// 32 rows of four channels, of which one is a hundred times larger; e4m3 rounds by its scale.
TEST(LayerStats, ShowOutlierChannelsExponentsAndErrorsOfATensor) {
  Matrix x(32, std::vector<double>{1, 1.0625, 0.25, 100});
  LayerStatistics statistics(amp::recipes::current(), {});
  {
    const autograd::OpObserverScope watching(&statistics);
    linear(tensor_of(x), tensor_of(weights));
  }
  const LayerStats found = statistics.ranking().at(0);
  EXPECT_EQ(found.input.channels, 4);
  EXPECT_EQ(found.input.outlier_channels, 1);
  // 0.25 = 2^-2; 1 and 1.0625 are in [1, 2); 100 is in [64, 128).
  EXPECT_EQ(found.input.first_exponent, -2);
  EXPECT_EQ(found.input.exponents, (std::vector<double>{0.25, 0, 0.5, 0, 0, 0, 0, 0, 0.25}));
  EXPECT_EQ(found.input.sqnr[0], 200);  // exact in f16
  EXPECT_EQ(found.input.sqnr[1], 200);  // and in bf16
  double signal = 0, noise = 0;
  const Matrix rounded_x = rounded<e4m3>(x, 448);
  for (size_t i = 0; i < x.size(); ++i) {
    for (size_t j = 0; j < x[i].size(); ++j) {
      signal += x[i][j] * x[i][j];
      noise += (rounded_x[i][j] - x[i][j]) * (rounded_x[i][j] - x[i][j]);
    }
  }
  EXPECT_NEAR(found.input.sqnr[2], 10 * std::log10(signal / noise), 0.01);
  const std::string json = ranking_json({found}, 7);
  for (const char* key :
       {"\"outlier_channels\":1", "\"first_exponent\":-2", "\"exponents\":[0.25,"})
    EXPECT_NE(json.find(key), std::string::npos) << json;
}

TEST(LayerStats, TensorsWithInfinitiesHaveNoSqnr) {
  Matrix x = inputs;
  x[0][0] = std::numeric_limits<double>::infinity();
  LayerStatistics statistics(amp::recipes::current(), {});
  {
    const autograd::OpObserverScope watching(&statistics);
    linear(tensor_of(x), tensor_of(weights));
  }
  for (const double sqnr : statistics.ranking().at(0).input.sqnr) EXPECT_TRUE(std::isnan(sqnr));
}

// Delayed recipes take the scale they have: one that is too large saturates.
TEST(LayerStats, OfDelayedRecipesGoByTheirScales) {
  amp::RoleMap<Tensor> scales;
  scales[amp::Role::input] = full({1}, 448.0 / 10);
  LayerStatistics statistics(amp::recipes::delayed(), {{"layer", scales}});
  {
    const autograd::OpObserverScope watching(&statistics);
    const autograd::ModuleScope module("layer");
    linear(tensor_of(inputs), tensor_of(weights));
  }
  const LayerStats found = statistics.ranking().at(0);
  EXPECT_DOUBLE_EQ(found.input.out_of_range[2].saturate, 2.0 / 12);  // 100 and -60
  EXPECT_GT(found.forward.harm, 0.2);
}

}  // namespace
}  // namespace binade::lab
