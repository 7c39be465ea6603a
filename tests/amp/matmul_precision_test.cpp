#include <gtest/gtest.h>

#include <thread>

#include "binade/binade.h"
#include "binade/ops/quantized/linear.h"
#include "support/tensors.h"

// The precision of f32 matmuls is part of a thread's autocast state.
namespace binade {
namespace {

using amp::MatmulPrecision;
using amp::MatmulPrecisionGuard;

// A matmul with 1 gives this value in f32, and 1 in TF32, which has 10 bits of mantissa.
constexpr double above_one = 1 + 0x1p-12;

double one_product() { return matmul(full({1, 1}, above_one), ones({1, 1})).item(); }

TEST(MatmulPrecision, GuardsNestAndRestore) {
  EXPECT_EQ(one_product(), above_one);
  {
    const MatmulPrecisionGuard high(MatmulPrecision::high);
    EXPECT_EQ(one_product(), 1);
    {
      const MatmulPrecisionGuard highest(MatmulPrecision::highest);
      EXPECT_EQ(one_product(), above_one);
    }
    EXPECT_EQ(one_product(), 1);
  }
  EXPECT_EQ(one_product(), above_one);
}

TEST(MatmulPrecision, AutocastGuardsInheritIt) {
  const MatmulPrecisionGuard high(MatmulPrecision::high);
  const amp::Autocast on(DType::bf16);
  EXPECT_EQ(amp::matmul_precision(), MatmulPrecision::high);
  const amp::Autocast off(DType::bf16, {.enabled = false});
  EXPECT_EQ(one_product(), 1);
  // A composite switches autocast off for the ops it is made of.
  const Tensor a = full({1, 1}, above_one), b = ones({1, 1});
  EXPECT_EQ(linear_composite(a, b).item(), 1);
  EXPECT_EQ(addmm(zeros({1, 1}), a, b).item(), 1);
}

TEST(MatmulPrecision, IsTheThreadsOwn) {
  const MatmulPrecisionGuard high(MatmulPrecision::high);
  double other = 0;
  std::thread([&] { other = one_product(); }).join();
  EXPECT_EQ(other, above_one);
  EXPECT_EQ(one_product(), 1);
}

bool same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  bool same = a.size() == b.size();
  for (size_t i = 0; same && i < a.size(); ++i)
    same = static_cast<bool>(test::same_bits(a[i], b[i]));
  return same;
}

// The gradients of a program whose forward runs in `forward` and whose backward is started in
// `backward`.
template <class Program>
std::vector<Tensor> gradients(MatmulPrecision forward, MatmulPrecision backward, Program program) {
  const std::vector<Tensor> leaves = {test::noise_leaf({5, 8}, 1), test::noise_leaf({8, 8}, 2)};
  Tensor y;
  {
    const MatmulPrecisionGuard guard(forward);
    y = program(leaves);
  }
  const MatmulPrecisionGuard guard(backward);
  y.backward(test::noise(y.shape(), 3));
  return {y, leaves[0].grad(), leaves[1].grad()};
}

Tensor two_layers(std::span<const Tensor> in) { return linear(tanh(linear(in[0], in[1])), in[1]); }

template <class Program>
void expect_backward_follows_forward(Program program) {
  constexpr auto high = MatmulPrecision::high, highest = MatmulPrecision::highest;
  const auto tf32 = gradients(high, high, program), f32 = gradients(highest, highest, program);
  EXPECT_FALSE(same_bits(tf32, f32));
  EXPECT_TRUE(same_bits(gradients(high, highest, program), tf32));
  EXPECT_TRUE(same_bits(gradients(highest, high, program), f32));
}

TEST(MatmulPrecision, ABackwardRunsInItsForwards) { expect_backward_follows_forward(two_layers); }

// Matmuls that a recipe leaves out are f32 matmuls like others.
TEST(MatmulPrecision, AppliesToMatmulsThatARecipeLeavesOut) {
  amp::Recipe recipe = amp::recipes::delayed();
  recipe.matmuls = {.forward = false, .dgrad = false, .wgrad = false};
  const auto quantized = [&](std::span<const Tensor> in) {
    return quantized_linear(in[0], with_facts({.weight = in[1],
                                               .recipe = &recipe,
                                               .scales = std::make_shared<amp::LayerScales>()}));
  };
  const auto plain = [](std::span<const Tensor> in) { return linear(in[0], in[1]); };
  expect_backward_follows_forward(quantized);
  constexpr auto high = MatmulPrecision::high, highest = MatmulPrecision::highest;
  EXPECT_TRUE(same_bits(gradients(high, highest, quantized), gradients(high, highest, plain)));
}

TEST(MatmulPrecision, RecomputeRunsInItsForwards) {
  const auto recomputed = [](std::span<const Tensor> in) { return checkpoint(two_layers, in); };
  expect_backward_follows_forward(recomputed);
  constexpr auto high = MatmulPrecision::high, highest = MatmulPrecision::highest;
  EXPECT_TRUE(
      same_bits(gradients(high, highest, recomputed), gradients(high, highest, two_layers)));
}

TEST(MatmulPrecision, ACustomOpsBackwardRunsInItsForwards) {
  expect_backward_follows_forward([](std::span<const Tensor> in) {
    return custom({.name = "mine",
                   .forward = [](std::span<const Tensor> x) { return matmul(x[0], x[1]); },
                   .backward =
                       [](const Tensor& dy, std::span<const Tensor> x, const Tensor&,
                          autograd::GradSlots dx) {
                         dx[0].add(matmul(dy, transpose(x[1], 0, 1)));
                         dx[1].add(matmul(transpose(x[0], 0, 1), dy));
                       }},
                  in);
  });
}

}  // namespace
}  // namespace binade
