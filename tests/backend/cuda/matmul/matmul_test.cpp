#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backend/cuda/matmul/near_cpu.h"
#include "binade/backend/backend.h"
#include "binade/backend/transfer.h"

// Matmuls on a GPU equal the CPU's within the roundings of both.
namespace binade::backend::cuda_matmul_test {
namespace {

using MatmulGpu = MatmulGpuTest;

struct Case {
  int64_t batch, m, n, k;
};

// The axes 1 and 2 exchanged.
Tensor transposed(const Tensor& x) {
  return x.strided({x.size(0), x.size(2), x.size(1)},
                   {x.strides()[0], x.strides()[2], x.strides()[1]}, x.offset());
}

// One matmul with all its options. Operands are dense; a transposed one is stored transposed.
struct MatmulCase {
  Case sizes;
  DType a, b, y;
  bool transpose_a = false, transpose_b = false, transpose_y = false;
  float alpha = 1, beta = 0;
  bool bias = false, pre = false, scales = false;
  Activation activation = Activation::none;
};

std::string describe(const MatmulCase& p) {
  std::string text;
  for (const int64_t size : {p.sizes.batch, p.sizes.m, p.sizes.n, p.sizes.k})
    text += std::to_string(size) + " ";
  for (const DType type : {p.a, p.b, p.y}) text += std::string(name(type)) + " ";
  return text + "transposed " + std::to_string(p.transpose_a) + std::to_string(p.transpose_b) +
         std::to_string(p.transpose_y) + " beta " + std::to_string(p.beta) + " bias " +
         std::to_string(p.bias) + " pre " + std::to_string(p.pre) + " activation " +
         std::to_string(static_cast<int>(p.activation));
}

Results run(const MatmulCase& p, Device device, bool of_magnitudes) {
  const auto [batch, m, n, k] = p.sizes;
  const auto given = [&](const Shape& shape, DType dtype, uint64_t stream, bool transpose) {
    Tensor x = noise(transpose ? Shape{shape[0], shape[2], shape[1]} : shape, dtype, stream);
    if (of_magnitudes) x = magnitudes(x);
    x = transfer(x, device);
    return transpose ? transposed(x) : x;
  };
  const Tensor a = given({batch, m, k}, p.a, 1, p.transpose_a),
               b = given({batch, k, n}, p.b, 2, p.transpose_b);
  const Tensor y = given({batch, m, n}, p.y, 3, p.transpose_y);
  const Tensor bias = transfer(noise({n}, DType::f32, 4), device);
  const Tensor pre = Tensor::empty({batch, m, n}, p.y, device);
  const Tensor scale_a = transfer(filled({1}, DType::f32, 0.5), device),
               scale_b = transfer(filled({1}, DType::f32, 3), device);
  Epilogue epilogue{.alpha = p.alpha, .beta = p.beta, .activation = p.activation};
  if (p.bias && !of_magnitudes) epilogue.bias = bias;
  if (p.pre) epilogue.pre_activation = pre;
  if (p.scales) {
    epilogue.scale_a = scale_a;
    epilogue.scale_b = scale_b;
  }
  of(device).matmul.matmul(a, b, y, epilogue);
  const Tensor stored = p.transpose_y ? transposed(y) : y;
  return {transfer(stored, Device::cpu()), p.pre ? transfer(pre, Device::cpu()) : Tensor()};
}

// Sums may differ by the roundings of k additions of each side; FP8 tensor cores keep about 13 bits
// of a partial sum. A 16-bit result may have been rounded before its bias and its activation too.
void expect_the_cpus(const MatmulCase& p) {
  const bool fp8 = is_quantized(p.a) && is_quantized(p.b);
  const double unit = fp8 ? 0x1p-12 : static_cast<double>(p.sizes.k + 8) * sum_epsilon(p.y);
  const double bias = p.bias ? 5 : 0;  // none is larger
  expect_near_the_cpus(
      p, p, run, [&](double size) { return 2 * unit * size + 3 * epsilon(p.y) * (size + bias); },
      describe(p));
}

const Case cases[] = {{1, 1, 1, 1},      {1, 5, 7, 3},    {3, 17, 9, 33},  {2, 64, 48, 100},
                      {2, 4, 4, 0},      {1, 1, 128, 64}, {1, 128, 1, 64}, {4, 96, 80, 64},
                      {1, 256, 64, 512}, {1, 130, 272, 1}};

TEST_F(MatmulGpu, AnyLayoutAndType) {
  const DType types[][3] = {
      {DType::f64, DType::f64, DType::f64},   {DType::f32, DType::f32, DType::f32},
      {DType::f16, DType::f16, DType::f16},   {DType::bf16, DType::bf16, DType::bf16},
      {DType::bf16, DType::bf16, DType::f32}, {DType::f16, DType::bf16, DType::f32},
      {DType::f32, DType::bf16, DType::bf16}, {DType::e4m3, DType::e4m3, DType::bf16},
      {DType::e4m3, DType::e5m2, DType::f16}, {DType::e5m2, DType::e4m3, DType::f32},
      {DType::e5m2, DType::e5m2, DType::f32}, {DType::bf16, DType::e4m3, DType::bf16}};
  for (const Case& sizes : cases) {
    for (const auto& [a, b, y] : types) {
      for (int layout = 0; layout < 8; ++layout) {
        expect_the_cpus({.sizes = sizes,
                         .a = a,
                         .b = b,
                         .y = y,
                         .transpose_a = (layout & 1) != 0,
                         .transpose_b = (layout & 2) != 0,
                         .transpose_y = (layout & 4) != 0,
                         .beta = layout % 3 == 0 ? 0.0f : 1.0f,
                         .scales = is_quantized(a) || is_quantized(b)});
      }
    }
  }
}

TEST_F(MatmulGpu, Epilogues) {
  const DType types[][2] = {{DType::f64, DType::f64},  {DType::f32, DType::f32},
                            {DType::f16, DType::f16},  {DType::bf16, DType::bf16},
                            {DType::bf16, DType::f32}, {DType::e4m3, DType::bf16},
                            {DType::e4m3, DType::f32}};
  for (const Case& sizes : {Case{1, 64, 96, 128}, Case{2, 13, 21, 40}, Case{3, 32, 64, 0}}) {
    for (const auto& [type, y] : types) {
      for (const Activation activation : {Activation::none, Activation::relu, Activation::gelu,
                                          Activation::gelu_tanh, Activation::silu}) {
        for (int choice = 0; choice < 8; ++choice) {
          expect_the_cpus({.sizes = sizes,
                           .a = type,
                           .b = type,
                           .y = y,
                           .alpha = 0.25f,
                           .beta = (choice & 1) != 0 ? 0.5f : 0.0f,
                           .bias = (choice & 2) != 0,
                           .pre = (choice & 4) != 0,
                           .scales = is_quantized(type),
                           .activation = activation});
        }
      }
    }
  }
}

// Large enough that algorithms are tuned: the trials must not change y.
TEST_F(MatmulGpu, LargeMatmuls) {
  for (const float beta : {0.0f, 1.0f}) {
    expect_the_cpus({.sizes = {1, 1024, 768, 768},
                     .a = DType::bf16,
                     .b = DType::bf16,
                     .y = DType::f32,
                     .transpose_b = true,
                     .beta = beta,
                     .bias = true});
    expect_the_cpus({.sizes = {1, 1024, 768, 768},
                     .a = DType::bf16,
                     .b = DType::bf16,
                     .y = DType::bf16,
                     .beta = beta,
                     .bias = true,
                     .pre = true,
                     .activation = Activation::gelu_tanh});
  }
}

TEST_F(MatmulGpu, ARepeatedOperandAndRowsWithGaps) {
  const Tensor a = noise({4, 5, 6}, DType::bf16, 1), b = noise({1, 6, 3}, DType::bf16, 2);
  const Tensor y = filled({4, 5, 3}, DType::f32, 0), expected = filled({4, 5, 3}, DType::f32, 0);
  const Tensor there = transfer(y, Device::cuda()), wide = transfer(a, Device::cuda());
  of(a).matmul.matmul(a.strided({4, 5, 4}, {30, 6, 1}, 1), b.strided({4, 4, 3}, {0, 3, 1}, 0),
                      expected, {});
  of(there).matmul.matmul(wide.strided({4, 5, 4}, {30, 6, 1}, 1),
                          transfer(b, Device::cuda()).strided({4, 4, 3}, {0, 3, 1}, 0), there, {});
  const Values bound(static_cast<size_t>(y.numel()), 64 * epsilon(DType::f32));
  expect_within(read(transfer(there, Device::cpu())), read(expected), bound, "gaps");
}

TEST_F(MatmulGpu, NanAndInfinityPassTheActivations) {
  const Tensor a = filled({1, 16, 32}, DType::bf16, std::numeric_limits<double>::quiet_NaN());
  const Tensor b = filled({1, 32, 16}, DType::bf16, 1);
  for (const Activation activation :
       {Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu}) {
    const Tensor y = transfer(filled({1, 16, 16}, DType::bf16, 0), Device::cuda());
    of(y).matmul.matmul(transfer(a, Device::cuda()), transfer(b, Device::cuda()), y,
                        {.activation = activation});
    for (const double value : read(transfer(y, Device::cpu()))) ASSERT_TRUE(std::isnan(value));
  }
}

}  // namespace
}  // namespace binade::backend::cuda_matmul_test
