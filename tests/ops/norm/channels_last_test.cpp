#include "binade/ops/norm/channels_last.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "binade/backend/gpu.h"
#include "binade/ops/conv/conv.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/matmul/linear.h"
#include "binade/ops/shape/shape.h"
#include "binade/tensor/memory_format.h"
#include "support/tensors.h"

// Ops of channels-last tensors against the same ops of row-major ones on the CPU in f64.
namespace binade::channels_last_test {
namespace {

using Parameters = std::vector<Tensor>;
using Function = std::function<Tensor(const Tensor& x, const Parameters& parameters)>;

struct Case {
  std::string name;
  Shape x;
  std::vector<Shape> parameters;
  Function call;
};

struct Placed {
  DType dtype;
  Device device;
  MemoryFormat format;
};

// Values that every tested type holds exactly.
Tensor values(const Shape& shape, uint64_t stream, const Placed& placed) {
  return to(cast(cast(test::noise(shape, stream), DType::bf16), placed.dtype), placed.device);
}

Tensor values_leaf(const Shape& shape, uint64_t stream, const Placed& placed) {
  Tensor x = values(shape, stream, placed).detach();
  x.set_requires_grad();
  return x;
}

// The result and the gradients of all inputs.
std::vector<Tensor> run(const Case& test, const Placed& placed) {
  const Tensor x = values_leaf(test.x, 1, placed);
  Parameters parameters;
  for (size_t i = 0; i < test.parameters.size(); ++i)
    parameters.push_back(values_leaf(test.parameters[i], 2 + i, placed));
  const bool last = placed.format == MemoryFormat::channels_last;
  const Tensor y = test.call(last ? channels_last(x) : x, parameters);
  y.backward(values(y.shape(), 100, placed));
  std::vector<Tensor> results{y.detach(), x.grad()};
  for (const Tensor& parameter : parameters) results.push_back(parameter.grad());
  return results;
}

double relative_error(const Tensor& found, const Tensor& expected) {
  const std::vector<double> a = test::read(found), b = test::read(expected);
  EXPECT_EQ(a.size(), b.size());
  double error = 0, norm = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    error += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(error / norm);
}

// Results are rounded once, or twice if a gradient passes another op; sums in f32 of up to some
// thousand terms add a few dozen of their own roundings.
double tolerance(DType dtype) {
  const double unit = dtype == DType::bf16  ? std::ldexp(1, -9)
                      : dtype == DType::f16 ? std::ldexp(1, -11)
                                            : 0;
  return 2 * unit + 48 * std::ldexp(1, -24);
}

Function convolution(const ConvOptions& options) {
  return [options](const Tensor& x, const Parameters& p) {
    return conv2d(x, p[0], p.size() > 1 ? p[1] : Tensor(), options);
  };
}

Function batch_norm_of(bool training, bool has_relu, bool has_residual) {
  return [=](const Tensor& x, const Parameters& p) {
    const int64_t channels = x.size(1);
    const Tensor mean = full({channels}, 0.25, DType::f32, x.device()),
                 variance = full({channels}, 2, DType::f32, x.device());
    const BatchNormOptions options{.training = training, .eps = 1e-3};
    if (!has_relu) return batch_norm(x, p[0], p[1], mean, variance, options);
    const Tensor residual = has_residual ? p[2] : Tensor();
    return batch_norm_relu(x, residual, p[0], p[1], mean, variance, options);
  };
}

std::vector<Case> cases() {
  const auto pooled = [](PoolOptions options) {
    return [options](const Tensor& x, const Parameters&) { return max_pool(x, options); };
  };
  std::vector<Case> all{
      {"conv 3x3", {2, 16, 9, 11}, {{24, 16, 3, 3}}, convolution({.padding = {1}})},
      {"conv 3x3 stride 2",
       {2, 16, 9, 12},
       {{8, 16, 3, 3}},
       convolution({.stride = {2}, .padding = {1}})},
      {"conv 1x1", {3, 32, 7, 5}, {{40, 32, 1, 1}}, convolution({})},
      {"conv 1x1 with bias", {3, 32, 7, 5}, {{40, 32, 1, 1}, {40}}, convolution({})},
      {"conv 1x1 stride 2", {2, 16, 8, 7}, {{24, 16, 1, 1}}, convolution({.stride = {2}})},
      {"conv with bias", {2, 8, 6, 5}, {{8, 8, 3, 3}, {8}}, convolution({.padding = {1}})},
      {"conv of groups", {2, 12, 6, 5}, {{8, 3, 3, 3}}, convolution({.padding = {1}, .groups = 4})},
      {"conv of odd sizes",
       {2, 5, 7, 6},
       {{7, 5, 3, 2}},
       convolution({.stride = {2, 1}, .padding = {2, 1}, .dilation = {2, 1}})},
      {"conv of 3 channels",
       {2, 3, 15, 15},
       {{16, 3, 7, 7}},
       convolution({.stride = {2}, .padding = {3}})},
      {"conv of 3 channels, even padding",
       {2, 3, 12, 17},
       {{8, 3, 5, 4}},
       convolution({.stride = {2}, .padding = {2, 0}})},
      {"conv of 4 channels, stride 2",
       {1, 4, 9, 8},
       {{8, 4, 3, 3}},
       convolution({.stride = {2}, .padding = {1}})},
      {"conv of 2 channels, kernel of 2",
       {2, 2, 7, 6},
       {{8, 2, 2, 2}},
       convolution({.stride = {2}})},
      {"conv of 1 channel", {2, 1, 9, 9}, {{16, 1, 3, 3}}, convolution({})},
      {"max pool 3x3", {2, 16, 9, 10}, {}, pooled({.kernel = {3}, .stride = {2}, .padding = {1}})},
      {"max pool of odd sizes",
       {3, 5, 7, 6},
       {},
       pooled({.kernel = {2, 3}, .stride = {1, 2}, .padding = {1, 0}, .ceil_mode = true})},
      {"max pool of a large window", {1, 8, 20, 20}, {}, pooled({.kernel = {17}, .stride = {2}})},
      {"average pool",
       {2, 24, 5, 7},
       {},
       [](const Tensor& x, const Parameters&) { return global_avg_pool(x); }},
  };
  for (const Shape& x :
       {Shape{4, 16, 6, 7}, Shape{3, 5, 3, 5}, Shape{2, 264, 1, 3}, Shape{40, 24, 9, 8}}) {
    const Shape c{x[1]};
    const std::string sizes = " " + to_string(x);
    for (const bool training : {true, false}) {
      const std::string name = (training ? "batch norm" : "batch norm in evaluation") + sizes;
      all.push_back({name, x, {c, c}, batch_norm_of(training, false, false)});
      all.push_back({name + " relu", x, {c, c}, batch_norm_of(training, true, false)});
      all.push_back({name + " residual", x, {c, c, x}, batch_norm_of(training, true, true)});
    }
  }
  return all;
}

TEST(ChannelsLast, HasTheValuesOfRowMajorOnTheCpu) {
  for (const Case& test : cases()) {
    SCOPED_TRACE(test.name);
    const Placed placed{DType::f32, Device::cpu(), MemoryFormat::row_major};
    const std::vector<Tensor> expected = run(test, placed),
                              found = run(test,
                                          {DType::f32, Device::cpu(), MemoryFormat::channels_last});
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(test::same_bits(contiguous(found[i]), expected[i])) << i;
  }
}

TEST(ChannelsLastGpu, AgreesWithTheCpu) {
  if (backend::gpus().empty()) GTEST_SKIP() << "no GPU";
  for (const Case& test : cases()) {
    const std::vector<Tensor> expected =
        run(test, {DType::f64, Device::cpu(), MemoryFormat::row_major});
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      SCOPED_TRACE(test.name + " " + std::string(name(dtype)));
      const Placed placed{dtype, Device::cuda(), MemoryFormat::channels_last};
      const std::vector<Tensor> found = run(test, placed), again = run(test, placed);
      const bool has_pixels = found[0].size(2) * found[0].size(3) > 1;
      if (has_pixels && test.name != "max pool of a large window") {
        EXPECT_TRUE(is_channels_last(found[0])) << to_string(found[0].strides());
      }
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_LT(relative_error(found[i], expected[i]), tolerance(dtype)) << i;
        EXPECT_TRUE(test::same_bits(found[i], again[i])) << i;
      }
    }
  }
}

TEST(ChannelsLastGpu, MovesRunningStatistics) {
  if (backend::gpus().empty()) GTEST_SKIP() << "no GPU";
  const auto moved = [](const Placed& placed) {
    const Tensor x = values({5, 6, 4, 3}, 1, placed) + 3.0;
    const Tensor mean = full({6}, 1, DType::f32, x.device()),
                 variance = full({6}, 2, DType::f32, x.device());
    const bool last = placed.format == MemoryFormat::channels_last;
    batch_norm(last ? channels_last(x) : x, {}, {}, mean, variance, {.training = true});
    return std::vector<Tensor>{mean, variance};
  };
  const auto expected = moved({DType::f32, Device::cpu(), MemoryFormat::row_major}),
             found = moved({DType::f32, Device::cuda(), MemoryFormat::channels_last});
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_LT(relative_error(found[i], expected[i]), tolerance(DType::f32)) << i;
}

// A matmul reads the result in row-major order, which is not that of computing it again.
TEST(ChannelsLastGpu, AMatmulAfterABatchNormAgreesWithTheCpu) {
  if (backend::gpus().empty()) GTEST_SKIP() << "no GPU";
  const Case test{"linear", {2, 8, 3, 5}, {{8}, {8}, {7, 5}}, [](const Tensor& x, const auto& p) {
                    return linear(batch_norm_of(true, true, false)(x, p), p[2]);
                  }};
  const auto expected = run(test, {DType::f64, Device::cpu(), MemoryFormat::row_major}),
             found = run(test, {DType::f32, Device::cuda(), MemoryFormat::channels_last});
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_LT(relative_error(found[i], expected[i]), tolerance(DType::f32)) << i;
}

// The gradients of conv2d(batch_norm_relu(x)), whose hidden result is computed again, against those
// with the result kept: a leaf of its own.
TEST(ChannelsLastGpu, ARecomputedResultHasTheBitsOfAKeptOne) {
  if (backend::gpus().empty()) GTEST_SKIP() << "no GPU";
  const Placed placed{DType::bf16, Device::cuda(), MemoryFormat::channels_last};
  const Shape shape{4, 16, 6, 5};
  const Tensor kernel = values_leaf({8, 16, 3, 3}, 5, placed),
               same_kernel = values_leaf({8, 16, 3, 3}, 5, placed);
  const auto hidden = [&](const Tensor& x) {
    return batch_norm_of(true, true, false)(channels_last(x),
                                            {values({16}, 3, placed), values({16}, 4, placed)});
  };
  const Tensor x = values_leaf(shape, 1, placed), same_x = values_leaf(shape, 1, placed);
  const Tensor y = conv2d(hidden(x), kernel);
  const Tensor dy = values(y.shape(), 6, placed);
  y.backward(dy);

  const Tensor result = hidden(same_x);
  Tensor kept = result.detach();
  kept.set_requires_grad();
  kept.set_grad_dtype(DType::bf16);
  conv2d(kept, same_kernel).backward(dy);
  result.backward(kept.grad());
  EXPECT_TRUE(test::same_bits(kernel.grad(), same_kernel.grad()));
  EXPECT_TRUE(test::same_bits(x.grad(), same_x.grad()));
}

}  // namespace
}  // namespace binade::channels_last_test
