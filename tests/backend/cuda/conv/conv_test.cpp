#ifdef BINADE_CUDA

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "backend/cpu/values.h"
#include "binade/backend/conv.h"
#include "binade/backend/cpu/kernels.h"
#include "binade/backend/cuda/device.h"
#include "binade/backend/cuda/kernels.h"
#include "binade/backend/transfer.h"

namespace binade::backend::cuda_conv_test {
namespace {

struct Case {
  int64_t images, channels, out_channels;  // channels of all groups
  std::array<int64_t, 3> in, kernel;
  ConvGeometry geometry;

  int64_t out(size_t axis) const {
    const int64_t reach = geometry.dilation[axis] * (kernel[axis] - 1) + 1;
    return (in[axis] + 2 * geometry.padding[axis] - reach) / geometry.stride[axis] + 1;
  }
  Shape x_shape() const { return {images, channels, in[0], in[1], in[2]}; }
  Shape weight_shape() const {
    return {out_channels, channels / geometry.groups, kernel[0], kernel[1], kernel[2]};
  }
  Shape y_shape() const { return {images, out_channels, out(0), out(1), out(2)}; }
  std::string text(DType dtype) const {
    return std::string(name(dtype)) + " x " + to_string(x_shape()) + " weight " +
           to_string(weight_shape());
  }
};

const Case cases[] = {
    {2, 8, 16, {1, 14, 14}, {1, 3, 3}, {.padding = {0, 1, 1}}},
    {3, 5, 7, {1, 6, 5}, {1, 1, 1}, {}},
    {2,
     4,
     6,
     {1, 11, 8},
     {1, 3, 2},
     {.stride = {1, 2, 3}, .padding = {0, 2, 1}, .dilation = {1, 2, 1}}},
    {2, 6, 4, {1, 1, 30}, {1, 1, 5}, {.stride = {1, 1, 2}, .padding = {0, 0, 2}, .groups = 2}},
    {1, 8, 8, {1, 12, 12}, {1, 3, 3}, {.padding = {0, 1, 1}, .groups = 8}},
    {2, 2, 3, {4, 5, 6}, {2, 3, 3}, {.stride = {2, 1, 2}, .padding = {1, 1, 0}}},
    {0, 2, 3, {1, 4, 4}, {1, 3, 3}, {}},
};

class ConvGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda::devices().empty()) GTEST_SKIP() << "no GPU";
    cuda::activate(Device::cuda());
  }
};

Tensor to_gpu(const Tensor& x) { return x.defined() ? transfer(x, Device::cuda()) : Tensor(); }

// Both sides sum `terms` products of standard normal numbers in f32 (f64 for f64) and round to the
// type of the result; cuDNN's results are rounded once more where a bias follows.
void expect_close(const Tensor& on_gpu, const Tensor& expected, int64_t terms, DType dtype,
                  const std::string& what) {
  const Values values = read(expected);
  Values bound(values.size());
  const double count = static_cast<double>(terms + 4), largest_product = 25;
  for (size_t i = 0; i < bound.size(); ++i)
    bound[i] = 2 * count * sum_epsilon(dtype) * std::sqrt(count) * largest_product +
               4 * storage_error(expected.dtype(), std::abs(values[i]) + 5);
  expect_within(read(transfer(on_gpu, Device::cpu())), values, bound, what);
}

TEST_F(ConvGpu, ForwardFollowsTheCpu) {
  for (const DType dtype : compute_types) {
    for (const Case& c : cases) {
      const Tensor x = noise(c.x_shape(), dtype, 1), weight = noise(c.weight_shape(), dtype, 2);
      for (const Tensor& bias : {Tensor(), noise({c.out_channels}, dtype, 3)}) {
        const Tensor expected = filled(c.y_shape(), dtype, NAN), y = to_gpu(expected);
        cpu::conv_kernels.forward(
            {.x = x, .weight = weight, .bias = bias, .geometry = c.geometry, .y = expected});
        cuda::conv_kernels.forward({.x = to_gpu(x),
                                    .weight = to_gpu(weight),
                                    .bias = to_gpu(bias),
                                    .geometry = c.geometry,
                                    .y = y});
        expect_close(y, expected, weight.numel() / c.out_channels, dtype, c.text(dtype));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(ConvGpu, BackwardInputFollowsTheCpu) {
  for (const DType dtype : compute_types) {
    for (const Case& c : cases) {
      const Tensor dy = noise(c.y_shape(), dtype, 1), weight = noise(c.weight_shape(), dtype, 2);
      for (const Tensor& bias : {Tensor(), noise({c.channels}, dtype, 3)}) {
        for (const bool accumulate : {false, true}) {
          const Tensor expected = noise(c.x_shape(), dtype, 4), dx = to_gpu(expected);
          cpu::conv_kernels.backward_input({.dy = dy,
                                            .weight = weight,
                                            .bias = bias,
                                            .geometry = c.geometry,
                                            .dx = expected,
                                            .accumulate = accumulate});
          cuda::conv_kernels.backward_input({.dy = to_gpu(dy),
                                             .weight = to_gpu(weight),
                                             .bias = to_gpu(bias),
                                             .geometry = c.geometry,
                                             .dx = dx,
                                             .accumulate = accumulate});
          expect_close(dx, expected, weight.numel() / weight.size(1), dtype, c.text(dtype));
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_F(ConvGpu, BackwardWeightFollowsTheCpu) {
  for (const DType dtype : compute_types) {
    for (const DType result : {dtype, dtype == DType::f64 ? dtype : DType::f32}) {
      for (const Case& c : cases) {
        const Tensor x = noise(c.x_shape(), dtype, 1), dy = noise(c.y_shape(), dtype, 2);
        for (const bool accumulate : {false, true}) {
          const Tensor expected = noise(c.weight_shape(), result, 4), dweight = to_gpu(expected);
          cpu::conv_kernels.backward_weight({.x = x,
                                             .dy = dy,
                                             .geometry = c.geometry,
                                             .dweight = expected,
                                             .accumulate = accumulate});
          cuda::conv_kernels.backward_weight({.x = to_gpu(x),
                                              .dy = to_gpu(dy),
                                              .geometry = c.geometry,
                                              .dweight = dweight,
                                              .accumulate = accumulate});
          expect_close(dweight, expected, dy.numel() / c.out_channels, dtype, c.text(dtype));
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_F(ConvGpu, GivesTheSameBitsEveryTime) {
  const Case c{8, 32, 48, {1, 20, 20}, {1, 3, 3}, {.padding = {0, 1, 1}}};
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor x = to_gpu(noise(c.x_shape(), dtype, 1)),
                 weight = to_gpu(noise(c.weight_shape(), dtype, 2)),
                 dy = to_gpu(noise(c.y_shape(), dtype, 3));
    const auto run = [&] {
      std::array<Tensor, 3> results{Tensor::empty_like(dy), Tensor::empty_like(x),
                                    Tensor::empty_like(weight)};
      cuda::conv_kernels.forward(
          {.x = x, .weight = weight, .geometry = c.geometry, .y = results[0]});
      cuda::conv_kernels.backward_input(
          {.dy = dy, .weight = weight, .geometry = c.geometry, .dx = results[1]});
      cuda::conv_kernels.backward_weight(
          {.x = x, .dy = dy, .geometry = c.geometry, .dweight = results[2]});
      for (Tensor& result : results) result = transfer(result, Device::cpu());
      return results;
    };
    const auto once = run();
    for (int i = 0; i < 3; ++i) {
      const auto again = run();
      for (size_t at = 0; at < once.size(); ++at) expect_same_bits(once[at], again[at], "conv");
    }
  }
}

}  // namespace
}  // namespace binade::backend::cuda_conv_test

#endif  // BINADE_CUDA
