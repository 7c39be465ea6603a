#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "backend/cuda/matmul/near_cpu.h"
#include "backend/cuda/matmul/spread.h"
#include "binade/backend/activation.h"
#include "binade/backend/backend.h"
#include "binade/backend/transfer.h"

// Matmuls followed by GELU or SwiGLU, on a GPU: x against the definition in double, y against the
// activation of that x. The sizes are whole tiles of Hopper's fused kernels, or not.
namespace binade::backend::cuda_fused_forward_test {
namespace {

using FusedForwardGpu = MatmulGpuTest;

struct Case {
  DType dtype;
  int64_t m, n, k;  // x is [m, n]
  bool bias = false;

  bool has_whole_tiles() const { return m % 256 == 0; }
  std::string text() const {
    return std::string(name(dtype)) + " " + std::to_string(m) + " x " + std::to_string(n) + " x " +
           std::to_string(k);
  }
};

constexpr Case cases[] = {{DType::bf16, 5632, 1536, 192, true},
                          {DType::f16, 5632, 1536, 128},
                          {DType::bf16, 5632, 1536, 2048, true},  // three warps process tiles
                          {DType::bf16, 300, 264, 100, true}};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

struct Operands {
  Tensor a, weight, bias;

  explicit Operands(const Case& c)
      : a(spread({c.m, c.k}, c.dtype, 1)),
        weight(spread({c.n, c.k}, c.dtype, 2)),
        bias(c.bias ? spread({c.n}, c.dtype, 3) : filled({c.n}, c.dtype, 0)) {}
};

// x = a weight^T + bias, summed in f32 and rounded; other kernels than the fused one may round
// before they add the bias, too.
void expect_linear(const Case& c, const Operands& operands, const Values& x) {
  const Values a = read(operands.a), weight = read(operands.weight), bias = read(operands.bias);
  for (int64_t row = 0; row < c.m; row += 151) {
    for (int64_t column = 0; column < c.n; ++column) {
      const double added = bias[static_cast<size_t>(column)];
      double sum = added, size = std::abs(added);
      for (int64_t i = 0; i < c.k; ++i) {
        const double term =
            a[static_cast<size_t>(row * c.k + i)] * weight[static_cast<size_t>(column * c.k + i)];
        sum += term;
        size += std::abs(term);
      }
      const double error = static_cast<double>(c.k + 1) * epsilon(DType::f32) * size;
      ASSERT_LE(std::abs(x[static_cast<size_t>(row * c.n + column)] - sum),
                error + storage_error(c.dtype, std::abs(sum) + error) +
                    (c.has_whole_tiles() ? 0 : storage_error(c.dtype, sum - added)))
          << c.text() << " at " << row << ", " << column;
    }
  }
}

// f is approximate to about 2^-20. cuBLASLt's GELU is one of x before it is rounded, which moves it
// by up to half a unit of x; its slope is at most 1.13.
void expect_activated(const Case& c, double found, double x, double expected) {
  const double error = 0x1p-17 * std::abs(x) + 1.13 * storage_error(c.dtype, x);
  ASSERT_LE(std::abs(found - expected), error + storage_error(c.dtype, std::abs(expected) + error))
      << c.text() << ": expected " << expected << ", found " << found;
}

TEST_F(FusedForwardGpu, GeluEqualsItsDefinition) {
  const Device gpu = Device::cuda();
  for (const Case& c : cases) {
    const Operands operands(c);
    const Tensor pre = transfer(filled({c.m, c.n}, c.dtype, NAN), gpu),
                 y = transfer(filled({c.m, c.n}, c.dtype, NAN), gpu), a = transfer(operands.a, gpu),
                 weight = transfer(operands.weight, gpu), bias = transfer(operands.bias, gpu);
    of(gpu).matmul.matmul(batch_of_one(a), transposed(batch_of_one(weight)), batch_of_one(y),
                          {.bias = c.bias ? TensorView(bias) : TensorView(),
                           .activation = Activation::gelu_tanh,
                           .pre_activation = batch_of_one(pre)});
    const Values x = read(transfer(pre, Device::cpu())), found = read(transfer(y, Device::cpu()));
    expect_linear(c, operands, x);
    for (size_t i = 0; i < x.size() && !HasFatalFailure(); i += 7) {
      const double linear = 2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
      expect_activated(c, found[i], x[i],
                       x[i] * sigmoid(linear * (x[i] + 0.044715 * x[i] * x[i] * x[i])));
    }
    if (HasFatalFailure()) return;
  }
}

// Gates and what they are multiplied with are half of x's columns apart.
TEST_F(FusedForwardGpu, SwiGluEqualsItsDefinition) {
  const Device gpu = Device::cuda();
  for (const Case& c :
       {Case{DType::bf16, 2816, 3072, 2048, true}, {DType::f16, 5632, 1536, 2112}}) {
    const Operands operands(c);
    const int64_t width = c.n / 2;
    const Tensor x = transfer(filled({c.m, c.n}, c.dtype, NAN), gpu),
                 y = transfer(filled({c.m, width}, c.dtype, NAN), gpu),
                 a = transfer(operands.a, gpu), weight = transfer(operands.weight, gpu),
                 bias = transfer(operands.bias, gpu);
    const LinearSwiGlu args{
        .a = a, .weight = weight, .bias = c.bias ? TensorView(bias) : TensorView(), .x = x, .y = y};
    if (!fuses_swiglu(args, gpu)) GTEST_SKIP() << "kernels of compute capability 9.0";
    of(gpu).matmul.matmul_swiglu(args);
    const Values hidden = read(transfer(x, Device::cpu())),
                 found = read(transfer(y, Device::cpu()));
    expect_linear(c, operands, hidden);
    for (int64_t i = 0; i < c.m * width && !HasFatalFailure(); i += 7) {
      const auto at = static_cast<size_t>(i / width * c.n + i % width);
      const double gate = hidden[at], up = hidden[at + static_cast<size_t>(width)];
      const double expected = gate * sigmoid(gate) * up, error = 0x1p-17 * std::abs(gate * up);
      ASSERT_LE(std::abs(found[static_cast<size_t>(i)] - expected),
                error + storage_error(c.dtype, std::abs(expected) + error))
          << c.text() << " at " << i;
    }
    if (HasFatalFailure()) return;
  }
}

// Shorter sums and partial tiles are left to a matmul and a kernel for SwiGLU.
TEST_F(FusedForwardGpu, SwiGluIsFusedWhereThatIsFaster) {
  const auto fuses = [](int64_t m, int64_t n, int64_t k, DType dtype) {
    const auto empty = [&](int64_t rows, int64_t columns) {
      return Tensor::empty({rows, columns}, dtype, Device::cuda());
    };
    const Tensor a = empty(m, k), weight = empty(n, k), x = empty(m, n);
    return fuses_swiglu({.a = a, .weight = weight, .x = x}, Device::cuda());
  };
  EXPECT_FALSE(fuses(2816, 3072, 1024, DType::bf16));
  EXPECT_FALSE(fuses(2800, 3072, 2048, DType::bf16));
  EXPECT_FALSE(fuses(2816, 3000, 2048, DType::bf16));
  EXPECT_FALSE(fuses(256, 256, 2048, DType::bf16)) << "one tile does not occupy the GPU";
  EXPECT_FALSE(fuses(2816, 3072, 2048, DType::f32));
}

}  // namespace
}  // namespace binade::backend::cuda_fused_forward_test
