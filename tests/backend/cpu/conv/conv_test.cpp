#include "binade/backend/conv.h"

#include <gtest/gtest.h>

#include "backend/cpu/values.h"
#include "binade/backend/cpu/kernels.h"

namespace binade::backend::cpu_conv_test {
namespace {

const ConvKernels& kernels = cpu::conv_kernels;

using Sizes3 = std::array<int64_t, 3>;

struct Case {
  int64_t images, channels, out_channels;  // channels of all groups
  Sizes3 in, kernel;
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
           to_string(weight_shape()) + " y " + to_string(y_shape());
  }
};

const Case cases[] = {
    {2, 3, 4, {1, 7, 9}, {1, 3, 3}, {.padding = {0, 1, 1}}},
    {2,
     4,
     6,
     {1, 11, 8},
     {1, 3, 2},
     {.stride = {1, 2, 3}, .padding = {0, 2, 1}, .dilation = {1, 2, 1}}},
    {2, 6, 4, {1, 1, 30}, {1, 1, 5}, {.stride = {1, 1, 2}, .padding = {0, 0, 2}, .groups = 2}},
    {3, 5, 7, {1, 6, 5}, {1, 1, 1}, {}},
    {2, 8, 8, {1, 9, 9}, {1, 1, 1}, {.stride = {1, 2, 2}, .groups = 4}},
    {1, 4, 4, {1, 12, 12}, {1, 3, 3}, {.padding = {0, 1, 1}, .groups = 4}},
    {2, 2, 3, {4, 5, 6}, {2, 3, 3}, {.stride = {2, 1, 2}, .padding = {1, 1, 0}}},
    {1, 1, 1, {1, 1, 1}, {1, 1, 1}, {}},
    {1, 2, 2, {1, 3, 3}, {1, 3, 3}, {.padding = {0, 4, 4}, .dilation = {1, 2, 2}}},
    {0, 2, 3, {1, 4, 4}, {1, 3, 3}, {}},
    {1, 3, 20, {1, 70, 65}, {1, 7, 7}, {.stride = {1, 2, 2}, .padding = {0, 3, 3}}},
    {10, 1, 2, {1, 50, 60}, {1, 2, 2}, {}},                     // more positions than a tile holds
    {40, 70, 3, {1, 4, 4}, {1, 3, 3}, {.padding = {0, 1, 1}}},  // more channels than a block, few
                                                                // positions
    {3, 600, 2, {1, 3, 3}, {1, 1, 1}, {}},
};

// Calls f(x, weight, y) with the indices of every term in the convolution's definition.
template <class F>
void for_terms(const Case& c, F&& f) {
  const ConvGeometry& g = c.geometry;
  const int64_t in_group = c.channels / g.groups, out_group = c.out_channels / g.groups;
  int64_t y = 0;
  for (int64_t n = 0; n < c.images; ++n)
    for (int64_t o = 0; o < c.out_channels; ++o)
      for (int64_t i = 0; i < c.out(0); ++i)
        for (int64_t j = 0; j < c.out(1); ++j)
          for (int64_t k = 0; k < c.out(2); ++k, ++y)
            for (int64_t channel = 0; channel < in_group; ++channel)
              for (int64_t a = 0; a < c.kernel[0]; ++a)
                for (int64_t b = 0; b < c.kernel[1]; ++b)
                  for (int64_t e = 0; e < c.kernel[2]; ++e) {
                    const int64_t d = i * g.stride[0] - g.padding[0] + a * g.dilation[0];
                    const int64_t h = j * g.stride[1] - g.padding[1] + b * g.dilation[1];
                    const int64_t w = k * g.stride[2] - g.padding[2] + e * g.dilation[2];
                    if (d < 0 || h < 0 || w < 0 || d >= c.in[0] || h >= c.in[1] || w >= c.in[2])
                      continue;
                    const int64_t source = o / out_group * in_group + channel;
                    const int64_t x =
                        (((n * c.channels + source) * c.in[0] + d) * c.in[1] + h) * c.in[2] + w;
                    const int64_t weight =
                        (((o * in_group + channel) * c.kernel[0] + a) * c.kernel[1] + b) *
                            c.kernel[2] +
                        e;
                    f(static_cast<size_t>(x), static_cast<size_t>(weight), static_cast<size_t>(y));
                  }
}

// A sum, the sum of its terms' sizes and their number: what its rounding error depends on.
struct Sums {
  Values value, size, terms;

  explicit Sums(int64_t count) : value(static_cast<size_t>(count)), size(value), terms(value) {}
  void add(size_t i, double term) {
    value[i] += term;
    size[i] += std::abs(term);
    terms[i] += 1;
  }
  void check(const Tensor& found, DType sum_type, const std::string& what) const {
    Values bound(value.size());
    for (size_t i = 0; i < bound.size(); ++i) {
      bound[i] =
          (terms[i] + 2) * sum_epsilon(sum_type) * size[i] + storage_error(found.dtype(), value[i]);
    }
    expect_within(read(found), value, bound, what);
  }
};

struct Inputs {
  Tensor x, weight, dy, bias, input_bias;

  Inputs(const Case& c, DType dtype)
      : x(noise(c.x_shape(), dtype, 1)),
        weight(noise(c.weight_shape(), dtype, 2)),
        dy(noise(c.y_shape(), dtype, 3)),
        bias(noise({c.out_channels}, dtype, 4)),
        input_bias(noise({c.channels}, dtype, 5)) {}
};

int64_t channel_of(const Tensor& x, int64_t i) {
  return i / (x.size(2) * x.size(3) * x.size(4)) % x.size(1);
}

TEST(CpuConv, ForwardFollowsItsDefinition) {
  for (const DType dtype : compute_types) {
    for (const Case& c : cases) {
      const Inputs in(c, dtype);
      const Values x = read(in.x), weight = read(in.weight), bias = read(in.bias);
      for (const bool with_bias : {false, true}) {
        const Tensor y = filled(c.y_shape(), dtype, NAN);
        kernels.forward({.x = in.x,
                         .weight = in.weight,
                         .bias = with_bias ? in.bias : Tensor(),
                         .geometry = c.geometry,
                         .y = y});
        Sums expected(y.numel());
        for_terms(c, [&](size_t i, size_t j, size_t k) { expected.add(k, x[i] * weight[j]); });
        for (int64_t i = 0; with_bias && i < y.numel(); ++i) {
          expected.add(static_cast<size_t>(i), bias[static_cast<size_t>(channel_of(y, i))]);
        }
        expected.check(y, dtype, "y " + c.text(dtype));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(CpuConv, BackwardInputFollowsItsDefinition) {
  for (const DType dtype : compute_types) {
    for (const Case& c : cases) {
      const Inputs in(c, dtype);
      const Values dy = read(in.dy), weight = read(in.weight), bias = read(in.input_bias);
      for (const int variant : {0, 1, 2}) {  // plain, accumulated, with a bias
        const Tensor dx =
            variant == 1 ? noise(c.x_shape(), dtype, 7) : filled(c.x_shape(), dtype, NAN);
        const Values old = read(dx);
        Sums expected(dx.numel());
        for (size_t i = 0; i < old.size(); ++i) {
          if (variant == 1) expected.add(i, old[i]);
          if (variant == 2) {
            expected.add(i, bias[static_cast<size_t>(channel_of(dx, static_cast<int64_t>(i)))]);
          }
        }
        for_terms(c, [&](size_t i, size_t j, size_t k) { expected.add(i, dy[k] * weight[j]); });
        kernels.backward_input({.dy = in.dy,
                                .weight = in.weight,
                                .bias = variant == 2 ? in.input_bias : Tensor(),
                                .geometry = c.geometry,
                                .dx = dx,
                                .accumulate = variant == 1});
        expected.check(dx, dtype, "dx " + c.text(dtype));
        if (HasFatalFailure()) return;
      }
    }
  }
}

// The gradient of 16-bit operands may be of their type or f32.
TEST(CpuConv, BackwardWeightFollowsItsDefinition) {
  for (const DType dtype : compute_types) {
    for (const DType result : {dtype, accumulation_type(dtype)}) {
      for (const Case& c : cases) {
        const Inputs in(c, dtype);
        const Values x = read(in.x), dy = read(in.dy);
        for (const bool accumulate : {false, true}) {
          const Tensor dweight = accumulate ? noise(c.weight_shape(), result, 8)
                                            : filled(c.weight_shape(), result, NAN);
          Sums expected(dweight.numel());
          const Values old = read(dweight);
          for (size_t i = 0; accumulate && i < old.size(); ++i) expected.add(i, old[i]);
          for_terms(c, [&](size_t i, size_t j, size_t k) { expected.add(j, x[i] * dy[k]); });
          kernels.backward_weight({.x = in.x,
                                   .dy = in.dy,
                                   .geometry = c.geometry,
                                   .dweight = dweight,
                                   .accumulate = accumulate});
          expected.check(dweight, dtype, "dweight " + c.text(dtype));
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

// Several tiles of images whose products are all equal: a bf16 running sum would stop growing at
// 256.
TEST(CpuConv, WeightGradientsOfManyImagesSumInFloat) {
  const Tensor x = filled({3008, 1, 1, 1, 1}, DType::bf16, 1), dy = x;
  const Tensor dweight = filled({1, 1, 1, 1, 1}, DType::bf16, 0);
  kernels.backward_weight({.x = x, .dy = dy, .dweight = dweight});
  EXPECT_EQ(read(dweight)[0], 3008);
}

TEST(CpuConv, IsTheSameForAnyNumberOfThreads) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const Case& c : cases) {
      const Inputs in(c, dtype);
      const auto run = [&](int threads) {
        ThreadCount count(threads);
        std::vector<Tensor> out{filled(c.y_shape(), dtype, 0), filled(c.x_shape(), dtype, 0),
                                filled(c.weight_shape(), DType::f32, 0)};
        kernels.forward(
            {.x = in.x, .weight = in.weight, .bias = in.bias, .geometry = c.geometry, .y = out[0]});
        kernels.backward_input(
            {.dy = in.dy, .weight = in.weight, .geometry = c.geometry, .dx = out[1]});
        kernels.backward_weight(
            {.x = in.x, .dy = in.dy, .geometry = c.geometry, .dweight = out[2]});
        return out;
      };
      const std::vector<Tensor> one = run(1);
      for (const int threads : {2, 8}) {
        const std::vector<Tensor> many = run(threads);
        for (size_t i = 0; i < one.size(); ++i) expect_same_bits(one[i], many[i], c.text(dtype));
      }
    }
  }
}

// A convolution is linear: <dy, conv(x, w)> = <dx, x> = <dweight, w> ties the three kernels
// together.
TEST(CpuConv, GradientsAreTheTransposedMaps) {
  for (const Case& c : cases) {
    const Inputs in(c, DType::f64);
    const Tensor y = filled(c.y_shape(), DType::f64, 0), dx = filled(c.x_shape(), DType::f64, 0);
    const Tensor dweight = filled(c.weight_shape(), DType::f64, 0);
    kernels.forward({.x = in.x, .weight = in.weight, .geometry = c.geometry, .y = y});
    kernels.backward_input({.dy = in.dy, .weight = in.weight, .geometry = c.geometry, .dx = dx});
    kernels.backward_weight({.x = in.x, .dy = in.dy, .geometry = c.geometry, .dweight = dweight});
    double size = 1;
    const auto inner = [&](const Tensor& a, const Tensor& b) {
      double sum = 0;
      for (int64_t i = 0; i < a.numel(); ++i) {
        sum += a.data<double>()[i] * b.data<double>()[i];
        size += std::abs(a.data<double>()[i] * b.data<double>()[i]);
      }
      return sum;
    };
    const double expected = inner(in.dy, y), by_input = inner(dx, in.x);
    const double by_weight = inner(dweight, in.weight);
    const double terms = static_cast<double>(in.x.numel() + in.weight.numel() + y.numel() + 1);
    EXPECT_NEAR(expected, by_input, terms * epsilon(DType::f64) * size) << c.text(DType::f64);
    EXPECT_NEAR(expected, by_weight, terms * epsilon(DType::f64) * size) << c.text(DType::f64);
  }
}

}  // namespace
}  // namespace binade::backend::cpu_conv_test
