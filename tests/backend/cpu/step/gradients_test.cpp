#include <gtest/gtest.h>

#include <limits>

#include "backend/cpu/values.h"
#include "binade/backend/cpu/kernels.h"
#include "binade/backend/optimizer.h"

// What is looked for in all gradients at once: the first that is not finite, and the norm.
namespace binade::backend::cpu_gradients_test {
namespace {

const OptimizerKernels& gradient_kernels = cpu::optimizer_kernels;
constexpr double bad_values[] = {std::numeric_limits<double>::infinity(),
                                 -std::numeric_limits<double>::infinity(),
                                 std::numeric_limits<double>::quiet_NaN()};
constexpr int32_t nowhere = std::numeric_limits<int32_t>::max();

struct Found {
  float inf;
  int32_t first;
};

// Gradients of several pieces each; the listed elements are bad.
Found unscale(const std::vector<std::pair<size_t, int64_t>>& bad, double value,
              int32_t known = nowhere) {
  std::vector<Tensor> gradients;
  for (const int64_t size : {3, 5000, 7, 5000, 1})
    gradients.push_back(filled({size}, DType::f32, 8));
  for (const auto& [gradient, element] : bad)
    gradients[gradient].mutable_data<float>()[element] = static_cast<float>(value);
  const std::vector<TensorView> views(gradients.begin(), gradients.end());
  const Tensor inf = filled({1}, DType::f32, 0), first = make({1}, DType::i32, {double(known)});
  gradient_kernels.unscale(views, filled({1}, DType::f32, 0.25), inf, first);
  for (const Tensor& gradient : gradients) {
    for (const double element : read(gradient)) {
      if (std::isfinite(element)) {
        EXPECT_EQ(element, 2);
      }
    }
  }
  return {inf.data<float>()[0], first.data<int32_t>()[0]};
}

TEST(CpuUnscale, NamesTheFirstBadGradient) {
  for (const double value : bad_values) {
    EXPECT_EQ(unscale({}, value).first, nowhere);
    EXPECT_EQ(unscale({}, value).inf, 0);
    EXPECT_EQ(unscale({{1, 4999}}, value).first, 1);
    EXPECT_EQ(unscale({{1, 4999}, {3, 0}}, value).first, 1);
    EXPECT_EQ(unscale({{3, 0}, {4, 0}}, value).first, 3);
    EXPECT_EQ(unscale({{0, 2}, {1, 0}, {2, 6}, {3, 2500}, {4, 0}}, value).first, 0);
    EXPECT_EQ(unscale({{2, 0}, {4, 0}}, value).inf, 1);
    EXPECT_EQ(unscale({{2, 0}, {4, 0}}, value, 1).first, 1);  // known from another list
    EXPECT_EQ(unscale({{2, 0}, {4, 0}}, value, 3).first, 2);
  }
}

// PyTorch adds 1e-6 to the norm before it divides.
TEST(CpuClipFactor, HasPyTorchsEpsilon) {
  const auto factor = [](double norm, double max_norm) {
    const Tensor result = filled({1}, DType::f32, NAN);
    gradient_kernels.clip_factor(make({1}, DType::f32, {norm}), max_norm, result);
    return static_cast<double>(result.data<float>()[0]);
  };
  const double unit = 4 * epsilon(DType::f32);
  EXPECT_NEAR(factor(1e-6, 1e-6), 0.5, unit);
  EXPECT_NEAR(factor(5e-7, 1e-6), 2.0 / 3, unit);
  EXPECT_NEAR(factor(1e-9, 1e-7), 1e-7 / 1.001e-6, unit);
  EXPECT_NEAR(factor(3e-6, 1e-6), 0.25, unit);
  EXPECT_NEAR(factor(0, 1e-7), 0.1, unit);
  EXPECT_EQ(factor(0, 1), 1);
  EXPECT_EQ(factor(0.5, 1), 1);
  EXPECT_EQ(factor(std::numeric_limits<double>::infinity(), 1), 0);
  EXPECT_TRUE(std::isnan(factor(NAN, 1)));
}

}  // namespace
}  // namespace binade::backend::cpu_gradients_test
