#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>

#include "backend/cuda/matmul/near_cpu.h"
#include "binade/backend/backend.h"
#include "binade/backend/transfer.h"

// Matmuls of FP8 operands with scales finer than a tensor, on a GPU and on the CPU.
namespace binade::backend::cuda_groups_test {
namespace {

using MatmulGroupsGpu = MatmulGpuTest;

// a [m, k] and b's transpose [n, k], by what shares a scale in each.
struct Groups {
  const char* name;
  ScaleGroup a, b;
};

constexpr Groups row{"row", {1, 0}, {1, 0}},
    line_by_block{"1x128 by 128x128", {1, 128}, {128, 128}},
    block_by_line{"128x128 by 1x128", {128, 128}, {1, 128}},
    line_by_line{"1x128 by 1x128", {1, 128}, {1, 128}},
    block_by_block{"128x128 by 128x128", {128, 128}, {128, 128}}, mx{"mx", {1, 32}, {1, 32}},
    row_by_tensor{"row by tensor", {1, 0}, {}};

struct MatmulCase {
  Groups groups;
  int64_t m, n, k;
  DType a = DType::e4m3, b = DType::e4m3, y = DType::bf16;
  float beta = 0;
  bool bias = false, pre = false, fast = false;
  Activation activation = Activation::none;
};

std::string describe(const MatmulCase& p) {
  return std::string(p.groups.name) + " " + std::to_string(p.m) + " x " + std::to_string(p.n) +
         " x " + std::to_string(p.k) + " " + std::string(name(p.a)) + " " + std::string(name(p.b)) +
         " " + std::string(name(p.y)) + " beta " + std::to_string(p.beta) + " bias " +
         std::to_string(p.bias) + " pre " + std::to_string(p.pre) + " fast " +
         std::to_string(p.fast) + " activation " + std::to_string(static_cast<int>(p.activation));
}

// Values whose magnitude differs from row to row and from block to block, so that every scale
// counts and none fits another's place.
Tensor uneven(int64_t rows, int64_t columns, uint64_t seed) {
  static std::map<std::array<int64_t, 3>, Tensor> made;
  Tensor& x = made[{rows, columns, static_cast<int64_t>(seed)}];
  if (x.defined()) return x;
  Values values = read(noise({rows, columns}, DType::f32, seed));
  for (int64_t i = 0; i < rows * columns; ++i) {
    const int64_t row = i / columns, column = i % columns;
    const int64_t of_row = row % 3, of_block = (row / 128 * 2 + column / 128) % 5;
    values[static_cast<size_t>(i)] *= std::ldexp(1.0, static_cast<int>(of_row + of_block) - 5);
  }
  return x = make({rows, columns}, DType::f32, values);
}

Quantized quantized(const Tensor& x, DType dtype, ScaleGroup group) {
  const bool in_codes = group == ScaleGroup{1, 32};
  const Quantized q = quantized_of(
      Tensor::empty(x.shape(), dtype),
      filled(scale_shape(x.shape(), group), in_codes ? DType::u8 : DType::f32, 1), group);
  const QuantizeKernels& kernels = of(x).quantize;
  if (in_codes) {
    kernels.quantize_mx(x, QuantizedView(q));
  } else {
    kernels.quantize_groups(x, {.group = group, .data = q.data, .scale_inv = q.scale_inv});
  }
  return q;
}

Results run(const MatmulCase& p, Device device, bool of_magnitudes) {
  const Quantized a = quantized(uneven(p.m, p.k, 1), p.a, p.groups.a),
                  b = quantized(uneven(p.n, p.k, 2), p.b, p.groups.b);
  const auto there = [&](const Tensor& x) {
    return transfer(of_magnitudes && x.dtype() != DType::u8 ? magnitudes(x) : x, device);
  };
  const Tensor left = there(a.data), right = there(b.data), scale_a = there(a.scale_inv),
               scale_b = there(b.scale_inv), bias = there(noise({p.n}, DType::f32, 3)),
               y = there(noise({1, p.m, p.n}, p.y, 4)),
               pre = Tensor::empty({1, p.m, p.n}, p.y, device);
  Epilogue e{.beta = p.beta,
             .activation = p.activation,
             .fast_accumulation = p.fast,
             .scale_a = scale_a,
             .scale_b = scale_b,
             .group_a = p.groups.a,
             .group_b = p.groups.b};
  if (p.bias) e.bias = bias;
  if (p.pre) e.pre_activation = pre;
  of(device).matmul.matmul(left.strided({1, p.m, p.k}, {0, p.k, 1}, 0),
                           right.strided({1, p.k, p.n}, {0, 1, p.k}, 0), y, e);
  return {transfer(y, Device::cpu()), p.pre ? transfer(pre, Device::cpu()) : Tensor()};
}

// FP8 tensor cores keep about 13 bits of a partial sum, of 32 terms or, summing fast, of all; the
// CPU sums values in f32. A 16-bit result may have been rounded before its bias and its activation
// too.
void expect_the_cpus(const MatmulCase& p) {
  MatmulCase plain = p;
  plain.y = DType::f32;
  const double additions = static_cast<double>(p.k + 8) * epsilon(DType::f32);
  const double steps = p.fast ? static_cast<double>(p.k) / 32 + 1 : 2;
  const double unit = 2 * additions + steps * 0x1p-12 + 3 * epsilon(p.y);
  expect_near_the_cpus(
      p, plain, run, [&](double size) { return unit * size; }, describe(p));
}

struct Sizes {
  int64_t m, n, k;
};

// Depths of one, two, three (no multiple of four) and five blocks, complete and not.
constexpr Sizes aligned[] = {{128, 128, 128}, {64, 256, 512}, {132, 144, 384}, {260, 272, 64},
                             {16, 128, 144},  {4, 16, 640},   {132, 144, 304}};
// What GPUs refuse: odd sizes, depths and widths that are no multiples of 16, nothing to sum.
constexpr Sizes odd[] = {{1, 1, 1},     {5, 7, 3},   {130, 48, 130}, {33, 144, 128},
                         {64, 20, 256}, {0, 16, 16}, {16, 16, 0}};

TEST_F(MatmulGroupsGpu, EveryGroupTypeAndShape) {
  const DType types[][3] = {
      {DType::e4m3, DType::e4m3, DType::bf16}, {DType::e4m3, DType::e4m3, DType::f32},
      {DType::e5m2, DType::e4m3, DType::bf16}, {DType::e5m2, DType::e4m3, DType::f32},
      {DType::e4m3, DType::e5m2, DType::f16},  {DType::e5m2, DType::e5m2, DType::f32}};
  for (const Groups& groups :
       {row, line_by_block, block_by_line, line_by_line, block_by_block, mx, row_by_tensor}) {
    for (const auto& shapes : {std::vector<Sizes>(std::begin(aligned), std::end(aligned)),
                               std::vector<Sizes>(std::begin(odd), std::end(odd))}) {
      for (const auto& [m, n, k] : shapes) {
        float beta = 0;
        for (const auto& [a, b, y] : types) {
          expect_the_cpus({groups, m, n, k, a, b, y, beta});
          beta = 1 - beta;
        }
      }
    }
  }
}

TEST_F(MatmulGroupsGpu, Epilogues) {
  for (const Groups& groups : {row, line_by_block, line_by_line}) {
    for (const DType y : {DType::bf16, DType::f32}) {
      for (const Activation activation :
           {Activation::none, Activation::gelu_tanh, Activation::silu}) {
        for (int choice = 0; choice < 8; ++choice) {
          expect_the_cpus({.groups = groups,
                           .m = 64,
                           .n = 144,
                           .k = 384,
                           .y = y,
                           .bias = (choice & 1) != 0,
                           .pre = (choice & 2) != 0,
                           .fast = (choice & 4) != 0,
                           .activation = activation});
        }
      }
    }
  }
}

// Past the size from which algorithms are tried: the trials must leave no trace in y.
TEST_F(MatmulGroupsGpu, LargeMatmuls) {
  for (const Groups& groups : {row, line_by_block, line_by_line}) {
    for (const float beta : {0.0f, 1.0f})
      expect_the_cpus(
          {.groups = groups, .m = 1024, .n = 768, .k = 672, .y = DType::f32, .beta = beta});
  }
}

// The values of the operands, four bytes each, are never made.
TEST_F(MatmulGroupsGpu, HopperMultipliesTheCodes) {
  if (gpus()[0].capability() != 90) GTEST_SKIP() << "no Hopper";
  constexpr int64_t m = 512, n = 384, k = 512;
  for (const Groups& groups : {row, line_by_block, block_by_line, line_by_line}) {
    for (const DType gradient : {DType::e4m3, DType::e5m2}) {
      for (const DType type : {DType::bf16, DType::f32}) {
        const Quantized a = quantized(uneven(m, k, 1), gradient, groups.a),
                        b = quantized(uneven(n, k, 2), DType::e4m3, groups.b);
        const Device gpu = Device::cuda();
        const Tensor left = transfer(a.data, gpu), right = transfer(b.data, gpu),
                     scale_a = transfer(a.scale_inv, gpu), scale_b = transfer(b.scale_inv, gpu),
                     y = Tensor::empty({1, m, n}, type, gpu);
        const auto multiply = [&] {
          of(gpu).matmul.matmul(
              left.strided({1, m, k}, {0, k, 1}, 0), right.strided({1, k, n}, {0, 1, k}, 0), y,
              {.scale_a = scale_a, .scale_b = scale_b, .group_a = groups.a, .group_b = groups.b});
        };
        multiply();  // cuBLASLt's own workspace comes with the first
        memory::reset_peak(gpu);
        const int64_t before = memory::allocated(gpu);
        multiply();
        EXPECT_LT(memory::peak(gpu) - before, m * k)
            << groups.name << " " << name(gradient) << " " << name(type);
      }
    }
  }
}

}  // namespace
}  // namespace binade::backend::cuda_groups_test
