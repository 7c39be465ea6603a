#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "backend/cuda/matmul/near_cpu.h"
#include "backend/cuda/matmul/spread.h"
#include "binade/backend/backend.h"
#include "binade/backend/transfer.h"

// Matmuls followed by an activation's backward, on a GPU, against the definition in double. The
// sizes are whole tiles of Hopper's fused kernel, in groups of tiles that do not divide them, or
// not whole tiles.
namespace binade::backend::cuda_fused_backward_test {
namespace {

using FusedBackwardGpu = MatmulGpuTest;

struct Case {
  DType dtype;
  int64_t m, n, k;
  bool in_place = false, accumulates = false, keeps_y = false;

  std::string text() const {
    return std::string(name(dtype)) + " " + std::to_string(m) + " x " + std::to_string(n) + " x " +
           std::to_string(k);
  }
};

constexpr Case cases[] = {{DType::bf16, 5632, 1280, 192},
                          {DType::f16, 5632, 1280, 128},
                          {DType::bf16, 5632, 1280, 320, true, true},
                          {DType::bf16, 5632, 1280, 128, true, false, true},
                          // Sums long enough for three warps to process tiles.
                          {DType::bf16, 5632, 1280, 2048, true, true},
                          {DType::f16, 5632, 1280, 2112, false, false, true},
                          {DType::bf16, 300, 264, 100}};

// A value and how far a kernel's may be from it.
struct Bounded {
  double value, error;
};

// Element (row, column) of a b, summed in f32 and rounded to the operands' type.
Bounded dy_of(const Case& c, const Values& a, const Values& b, int64_t row, int64_t column) {
  double sum = 0, size = 0;
  for (int64_t i = 0; i < c.k; ++i) {
    const double term =
        a[static_cast<size_t>(row * c.k + i)] * b[static_cast<size_t>(i * c.n + column)];
    sum += term;
    size += std::abs(term);
  }
  const double sum_error = static_cast<double>(c.k) * epsilon(DType::f32) * size;
  return {sum, sum_error + storage_error(c.dtype, std::abs(sum) + sum_error)};
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// The functions of kernels are approximate to about 2^-20; 2^-17 also covers what they are used in.
constexpr double function_error = 0x1p-17;

void expect_near(const Case& c, double found, double expected, double error,
                 const std::string& what) {
  ASSERT_LE(std::abs(found - expected), error + storage_error(c.dtype, std::abs(expected) + error))
      << what << " of " << c.text() << ": expected " << expected << ", found " << found;
}

// f(row, column) for all columns of every 151st row: those of all warps and tiles.
template <class F>
void for_sampled(const Case& c, F f) {
  for (int64_t row = 0; row < c.m; row += 151) {
    for (int64_t column = 0; column < c.n; ++column) {
      f(row, column);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

struct Gelu {
  Tensor dx, y, dbias;
};

Gelu run_gelu(const Case& c, const Tensor& a, const Tensor& b, const Tensor& pre) {
  const Device gpu = Device::cuda();
  const Tensor x = transfer(pre, gpu), dy = transfer(filled({c.m, c.n}, c.dtype, NAN), gpu);
  const Tensor dx = c.in_place ? x : transfer(filled({c.m, c.n}, c.dtype, NAN), gpu);
  const Tensor y = transfer(filled({c.m, c.n}, c.dtype, NAN), gpu);
  const Tensor dbias = transfer(filled({c.n}, DType::f32, c.accumulates ? 2.5 : NAN), gpu);
  of(gpu).matmul.matmul_activation_backward(transfer(a, gpu), transfer(b, gpu),
                                            {.activation = Activation::gelu_tanh,
                                             .dy = dy,
                                             .pre_activation = x,
                                             .dx = dx,
                                             .dbias = {dbias, c.accumulates},
                                             .y = c.keeps_y ? TensorView() : TensorView(y)});
  const auto here = [](const Tensor& on_gpu) { return transfer(on_gpu, Device::cpu()); };
  return {here(dx), here(y), here(dbias)};
}

TEST_F(FusedBackwardGpu, GeluEqualsItsDefinition) {
  for (const Case& c : cases) {
    const Tensor a = spread({c.m, c.k}, c.dtype, 1), b = spread({c.k, c.n}, c.dtype, 2);
    const Tensor pre = spread({c.m, c.n}, c.dtype, 3);
    const Gelu found = run_gelu(c, a, b, pre);
    const Values va = read(a), vb = read(b), vx = read(pre), dx = read(found.dx), y = read(found.y);
    for_sampled(c, [&](int64_t row, int64_t column) {
      const auto at = static_cast<size_t>(row * c.n + column);
      const double x = vx[at], linear = 2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
      const double gate = sigmoid(linear * (x + 0.044715 * x * x * x));
      const double inner = linear * (x + 3 * 0.044715 * x * x * x) * (1 - gate);
      const double derivative = gate + gate * inner, size = gate + gate * std::abs(inner);
      const Bounded dy = dy_of(c, va, vb, row, column);
      expect_near(c, dx[at], dy.value * derivative,
                  dy.error * size + function_error * size * std::abs(dy.value), "dx");
      if (c.keeps_y) {
        ASSERT_TRUE(std::isnan(y[at]));
      } else {
        expect_near(c, y[at], x * gate, function_error * std::abs(x), "y");
      }
    });
    if (HasFatalFailure()) return;
    // Sums of unrounded gradients, each half a unit from dx.
    Values sums(static_cast<size_t>(c.n), c.accumulates ? 2.5 : 0), bounds(sums.size());
    for (size_t i = 0; i < dx.size(); ++i) {
      sums[i % sums.size()] += dx[i];
      bounds[i % sums.size()] += storage_error(c.dtype, dx[i]) * (1 + epsilon(c.dtype)) +
                                 64 * epsilon(DType::f32) * std::abs(dx[i]);
    }
    for (double& bound : bounds) bound += 4 * epsilon(DType::f32);
    expect_within(read(found.dbias), sums, bounds, "dbias of " + c.text());
  }
}

TEST_F(FusedBackwardGpu, GivesTheSameBitsEveryTime) {
  const Case& c = cases[0];
  const Tensor a = spread({c.m, c.k}, c.dtype, 1), b = spread({c.k, c.n}, c.dtype, 2);
  const Tensor pre = spread({c.m, c.n}, c.dtype, 3);
  const Gelu first = run_gelu(c, a, b, pre);
  for (int i = 0; i < 3; ++i) {
    const Gelu again = run_gelu(c, a, b, pre);
    expect_same_bits(again.dx, first.dx, "dx");
    expect_same_bits(again.y, first.y, "y");
    expect_same_bits(again.dbias, first.dbias, "dbias");
  }
}

TEST_F(FusedBackwardGpu, SwiGluEqualsItsDefinition) {
  const Device gpu = Device::cuda();
  for (const Case& c : cases) {
    const Tensor a = spread({c.m, c.k}, c.dtype, 1), b = spread({c.k, c.n}, c.dtype, 2);
    const Tensor x = spread({c.m, 2 * c.n}, c.dtype, 3), x_there = transfer(x, gpu);
    const Tensor dx_there =
        c.in_place ? x_there : transfer(filled({c.m, 2 * c.n}, c.dtype, NAN), gpu);
    const Tensor dy = transfer(filled({c.m, c.n}, c.dtype, NAN), gpu);
    const Tensor y_there = transfer(filled({c.m, c.n}, c.dtype, NAN), gpu);
    of(gpu).matmul.matmul_swiglu_backward(
        transfer(a, gpu), transfer(b, gpu),
        {dy, x_there, dx_there, c.keeps_y ? TensorView() : TensorView(y_there)});
    const Values va = read(a), vb = read(b), vx = read(x);
    const Values dx = read(transfer(dx_there, Device::cpu())),
                 y = read(transfer(y_there, Device::cpu()));
    for_sampled(c, [&](int64_t row, int64_t column) {
      const auto at = static_cast<size_t>(row * 2 * c.n + column),
                 up_at = at + static_cast<size_t>(c.n);
      const double gate = vx[at], up = vx[up_at], open = sigmoid(gate), silu = gate * open;
      const double inner = open * gate * (1 - open), size = std::abs(up) * (open + std::abs(inner));
      const Bounded dy_value = dy_of(c, va, vb, row, column);
      expect_near(c, dx[at], dy_value.value * up * (open + inner),
                  dy_value.error * size + function_error * size * std::abs(dy_value.value),
                  "dgate");
      expect_near(c, dx[up_at], dy_value.value * silu,
                  (dy_value.error + function_error * std::abs(dy_value.value)) * std::abs(silu),
                  "dup");
      const double y_value = y[static_cast<size_t>(row * c.n + column)];
      if (c.keeps_y) {
        ASSERT_TRUE(std::isnan(y_value));
      } else {
        expect_near(c, y_value, silu * up, function_error * std::abs(silu * up), "y");
      }
    });
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace binade::backend::cuda_fused_backward_test
