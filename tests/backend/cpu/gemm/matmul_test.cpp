#include "binade/backend/matmul.h"

#include <gtest/gtest.h>

#include <numbers>

#include "backend/cpu/values.h"
#include "binade/backend/activation.h"
#include "binade/backend/cpu/kernels.h"

namespace binade::backend::cpu_matmul_test {
namespace {

const MatmulKernels& kernels = cpu::matmul_kernels;

struct Case {
  int64_t batch, m, n, k;
};
const Case cases[] = {{1, 1, 1, 1}, {1, 5, 7, 3}, {3, 17, 9, 33}, {2, 64, 48, 100},
                      {2, 4, 4, 0}, {0, 3, 3, 3}, {1, 0, 4, 2}};

// Element [batch, i, j] of a strided view, in double.
double at(const TensorView& x, int64_t batch, int64_t i, int64_t j) {
  return dispatch(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return static_cast<double>(
        x.as<T>()[batch * x.strides[0] + i * x.strides[1] + j * x.strides[2]]);
  });
}

double act(Activation activation, double x) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return x < 0 ? 0 : x;
    case Activation::gelu:
      return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
    case Activation::gelu_tanh:
      return 0.5 * x *
             (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Activation::silu:
      return x / (1 + std::exp(-x));
  }
  return x;
}

// y (and pre_activation) of the contract in double, with bounds: every rounding of a sum of k
// products, of the epilogue, and of storing. No activation's derivative exceeds 1.13.
void check(const Tensor& a, const Tensor& b, const Tensor& y, const Epilogue& epilogue,
           const Values& before, double scale, const std::string& what) {
  const TensorView left = a, right = b;
  const int64_t batches = y.size(0), m = y.size(1), n = y.size(2), k = a.size(2);
  const bool f64 = a.dtype() == DType::f64;
  const double unit = f64 ? epsilon(DType::f64) : epsilon(DType::f32);
  const double operand_unit = epilogue.tf32 ? 0x1p-10 : 0;
  Values expected, bound, pre, pre_bound;
  for (int64_t i = 0; i < y.numel(); ++i) {
    double sum = 0, size = 0;
    for (int64_t t = 0; t < k; ++t) {
      const double term = at(left, i / (m * n), i / n % m, t) * at(right, i / (m * n), t, i % n);
      sum += term, size += std::abs(term);
    }
    const double bias =
        epilogue.bias.present ? at(epilogue.bias.expanded({batches, m, n}), 0, 0, i % n) : 0;
    const double factor = epilogue.alpha * scale,
                 old = epilogue.beta == 0 ? 0 : epilogue.beta * before[i];
    const double value = factor * sum + old + bias;
    double error = static_cast<double>(k + 4) * unit * std::abs(factor) * size +
                   operand_unit * std::abs(factor) * size +
                   4 * unit * (std::abs(old) + std::abs(bias));
    pre.push_back(value), pre_bound.push_back(error + storage_error(epilogue.pre_activation.dtype,
                                                                    std::abs(value) + error));
    if (epilogue.activation != Activation::none && size_of(y.dtype()) == 2)
      error += storage_error(y.dtype(), std::abs(value) + error);  // its argument is rounded first
    error = 1.13 * error + 16 * unit * std::abs(value);
    expected.push_back(act(epilogue.activation, value));
    bound.push_back(error + storage_error(y.dtype(), std::abs(expected.back()) + error));
  }
  expect_within(read(y), expected, bound, what);
  if (epilogue.pre_activation.present) {
    Tensor copy = Tensor::empty(y.shape(), epilogue.pre_activation.dtype);
    if (copy.bytes() > 0)
      std::memcpy(copy.raw_data(), epilogue.pre_activation.data, static_cast<size_t>(copy.bytes()));
    expect_within(read(copy), pre, pre_bound, what + " pre-activation");
  }
}

Tensor transposed(const Tensor& x) {
  return x.strided({x.size(0), x.size(2), x.size(1)},
                   {x.strides()[0], x.strides()[2], x.strides()[1]}, 0);
}

struct Types {
  DType a, b, y;
};
const Types type_cases[] = {
    {DType::f64, DType::f64, DType::f64},   {DType::f32, DType::f32, DType::f32},
    {DType::f16, DType::f16, DType::f16},   {DType::bf16, DType::bf16, DType::bf16},
    {DType::bf16, DType::bf16, DType::f32}, {DType::f16, DType::f16, DType::f32},
    {DType::f32, DType::bf16, DType::f32},  {DType::e4m3, DType::e4m3, DType::bf16},
    {DType::e4m3, DType::e5m2, DType::f32}};

TEST(CpuMatmul, AnyLayoutAndType) {
  for (const Case& c : cases) {
    for (const Types& t : type_cases) {
      for (const int layout : {0, 1, 2, 3}) {
        const bool transpose_a = layout & 1, transpose_b = layout & 2;
        const Tensor a = transpose_a ? transposed(noise({c.batch, c.k, c.m}, t.a, 1))
                                     : noise({c.batch, c.m, c.k}, t.a, 1);
        const Tensor b = transpose_b ? transposed(noise({c.batch, c.n, c.k}, t.b, 2))
                                     : noise({c.batch, c.k, c.n}, t.b, 2);
        const Tensor y = filled({c.batch, c.m, c.n}, t.y, NAN);
        kernels.matmul(a, b, y, {});
        check(a, b, y, {}, {}, 1,
              std::string(name(t.a)) + " " + std::string(name(t.b)) + " layout " +
                  std::to_string(layout));
      }
    }
  }
}

TEST(CpuMatmul, ABatchStrideOfZeroRepeats) {
  const Tensor a = noise({4, 5, 6}, DType::bf16, 1), b = noise({1, 6, 3}, DType::bf16, 2);
  const Tensor repeated = b.strided({4, 6, 3}, {0, 3, 1}, 0),
               y = filled({4, 5, 3}, DType::f32, NAN);
  kernels.matmul(a, repeated, y, {});
  check(a, repeated, y, {}, {}, 1, "repeated");
}

TEST(CpuMatmul, Epilogue) {
  const Case c{2, 13, 21, 40};
  const Shape shape{c.batch, c.m, c.n};
  for (const DType dtype : compute_types) {
    for (const Activation activation : {Activation::none, Activation::relu, Activation::gelu,
                                        Activation::gelu_tanh, Activation::silu}) {
      for (const float beta : {0.0f, 1.0f}) {
        const Tensor a = noise({c.batch, c.m, c.k}, dtype, 1),
                     b = noise({c.batch, c.k, c.n}, dtype, 2);
        const Tensor bias = noise({c.n}, dtype, 3), pre = filled(shape, dtype, NAN);
        const Tensor y = beta == 0 ? filled(shape, dtype, NAN) : noise(shape, dtype, 4);
        const Values before = read(y);
        const Epilogue epilogue{.alpha = 0.25f,
                                .beta = beta,
                                .bias = bias,
                                .activation = activation,
                                .pre_activation = pre};
        kernels.matmul(a, b, y, epilogue);
        check(a, b, y, epilogue, before, 1, std::string(name(dtype)) + " epilogue");
      }
    }
  }
}

TEST(CpuMatmul, InverseScalesOfFp8OperandsMultiply) {
  const Tensor a = noise({1, 8, 32}, DType::e4m3, 1), b = noise({1, 32, 8}, DType::e5m2, 2),
               y = filled({1, 8, 8}, DType::f32, NAN);
  const Tensor scale_a = filled({1}, DType::f32, 0.125), scale_b = filled({}, DType::f32, 3);
  const Epilogue epilogue{.alpha = 2, .scale_a = scale_a, .scale_b = scale_b};
  kernels.matmul(a, b, y, epilogue);
  check(a, b, y, epilogue, {}, 0.375, "scales");
}

// Exactly the matmul of the dequantized operands.
TEST(CpuMatmul, GroupsOfFp8OperandsAreScaledBeforeTheSum) {
  constexpr int64_t m = 130, n = 140, k = 150;
  for (const auto& [group_a, group_b] : {std::pair(ScaleGroup{1, 0}, ScaleGroup{1, 0}),
                                         std::pair(ScaleGroup{1, 128}, ScaleGroup{128, 128}),
                                         std::pair(ScaleGroup{1, 128}, ScaleGroup{1, 128}),
                                         std::pair(ScaleGroup{1, 0}, ScaleGroup{})}) {
    const auto quantized = [](int64_t rows, ScaleGroup group, uint64_t seed) {
      const Tensor x = noise({rows, k}, DType::f32, seed);
      const Quantized q = empty_quantized(x.shape(), {.group = group}, Device::cpu());
      cpu::quantize_kernels.quantize_groups(
          x, {.group = group, .data = q.data, .scale_inv = q.scale_inv});
      return q;
    };
    const auto multiplied = [](const Tensor& a, const Tensor& b, const Epilogue& epilogue) {
      const Tensor y = filled({1, m, n}, DType::f32, 1);
      kernels.matmul(a.strided({1, m, k}, {0, k, 1}, 0), b.strided({1, k, n}, {0, 1, k}, 0), y,
                     epilogue);
      return y;
    };
    const Quantized a = quantized(m, group_a, 1), b = quantized(n, group_b, 2);
    const auto values = [](const Quantized& q) {
      if (q.layout.group == ScaleGroup{}) return q.data;
      const Tensor x = Tensor::empty(q.data.shape(), DType::f32);
      cpu::quantize_kernels.dequantize(QuantizedView(q), x);
      return x;
    };
    Epilogue plain{.beta = 1}, scaled{.beta = 1,
                                      .scale_a = a.scale_inv,
                                      .scale_b = b.scale_inv,
                                      .group_a = group_a,
                                      .group_b = group_b};
    if (group_b == ScaleGroup{}) plain.scale_b = b.scale_inv;
    expect_same_bits(multiplied(a.data, b.data, scaled), multiplied(values(a), values(b), plain),
                     "groups");
  }
}

TEST(CpuMatmul, RefusesGroupsOfBatchesAndOfMatricesAcrossTheSum) {
  const Tensor codes = filled({2, 16, 16}, DType::e4m3, 1), y = filled({2, 16, 16}, DType::f32, 0),
               scales = filled({16, 1}, DType::f32, 1);
  const Epilogue rows{.scale_a = scales, .group_a = {1, 0}},
      columns{.scale_b = scales, .group_b = {1, 0}};
  EXPECT_THROW(kernels.matmul(codes, codes, y, rows), Error);
  const Tensor one = codes.strided({1, 16, 16}, {0, 16, 1}, 0);
  EXPECT_THROW(kernels.matmul(one, one, y.strided({1, 16, 16}, {0, 16, 1}, 0), columns), Error);
}

TEST(CpuMatmul, Tf32RoundsOperands) {
  const Tensor a = filled({1, 1, 1}, DType::f32, 1 + 0x1p-12), b = filled({1, 1, 1}, DType::f32, 1);
  const Tensor y = filled({1, 1, 1}, DType::f32, NAN);
  kernels.matmul(a, b, y, {.tf32 = true});
  EXPECT_EQ(y.data<float>()[0], 1);
  kernels.matmul(a, b, y, {});
  EXPECT_EQ(y.data<float>()[0], 1 + 0x1p-12f);
}

TEST(CpuMatmul, RefusesIntegersAndGappedPreActivations) {
  const Tensor f = filled({1, 2, 2}, DType::f32, 1), i = filled({1, 2, 2}, DType::i64, 1);
  EXPECT_THROW(kernels.matmul(i, f, f, {}), Error);
  const Tensor gapped = filled({1, 2, 4}, DType::f32, 0).strided({1, 2, 2}, {8, 4, 2}, 0);
  EXPECT_THROW(kernels.matmul(f, f, filled({1, 2, 2}, DType::f32, 0), {.pre_activation = gapped}),
               Error);
}

TEST(CpuMatmul, BitsDoNotDependOnThreads) {
  const Tensor a = noise({3, 70, 130}, DType::bf16, 1), b = noise({3, 130, 90}, DType::bf16, 2);
  std::vector<Tensor> results;
  for (const int count : {1, 2, 8}) {
    const ThreadCount threads(count);
    results.push_back(filled({3, 70, 90}, DType::f32, NAN));
    kernels.matmul(a, b, results.back(), {.activation = Activation::gelu});
  }
  expect_same_bits(results[1], results[0], "2 threads");
  expect_same_bits(results[2], results[0], "8 threads");
}

// relu' is 0 or 1 and silu'(0) 1/2, so that gradients are sums of whole numbers.
TEST(CpuMatmul, ActivationsBackwardFollowsTheMatmul) {
  const Tensor a = make({2, 2}, DType::f32, {1, 2, 3, 4}),
               b = make({2, 2}, DType::f32, {5, 6, 7, 8});
  const Tensor dy = filled({2, 2}, DType::f32, NAN), dx = filled({2, 2}, DType::f32, NAN);
  const Tensor dbias = filled({2}, DType::f32, NAN);
  kernels.matmul_activation_backward(a, b,
                                     {.activation = Activation::relu,
                                      .dy = dy,
                                      .pre_activation = make({2, 2}, DType::f32, {1, -1, 2, 3}),
                                      .dx = dx,
                                      .dbias = {.view = dbias}});
  EXPECT_EQ(read(dx), (Values{19, 0, 43, 50}));
  EXPECT_EQ(read(dbias), (Values{62, 50}));

  const Tensor x = make({2, 4}, DType::f32, {0, 0, 2, 4, 0, 0, 6, 8});  // gates of 0
  const Tensor wide = filled({2, 4}, DType::f32, NAN);
  kernels.matmul_swiglu_backward(a, b, {dy, x, wide});
  EXPECT_EQ(read(wide), (Values{19, 44, 0, 0, 129, 200, 0, 0}));
}

}  // namespace
}  // namespace binade::backend::cpu_matmul_test
