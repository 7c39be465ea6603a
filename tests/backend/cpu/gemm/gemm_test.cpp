#include "binade/backend/cpu/gemm/gemm.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "backend/cpu/gemm/cases.h"
#include "binade/backend/cpu/gemm/kernel.h"
#include "binade/base/error.h"
#include "binade/base/parallel.h"
#include "support/thread_count.h"

namespace binade::backend::cpu::gemm_test {
namespace {

using namespace gemm_cases;

// Runs a body on every level that this CPU has.
template <class Body>
void on_every_level(Body body) {
  const std::string before(current_level().name);
  for (const Level& level : available_levels()) {
    set_level(level.name);
    body();
  }
  set_level(before);
}

TEST(CpuGemm, EdgeSizes) {
  on_every_level([] {
    for (int64_t m : {0, 1, 2, 7, 8, 9, 33}) {
      for (int64_t n : {0, 1, 3, 12, 13, 37}) {
        for (int64_t k : {0, 1, 2, 3, 4, 5, 31, 32, 70}) {
          for (DType type : {DType::f32, DType::bf16}) {
            check({.m = m, .n = n, .k = k, .a = type, .b = type, .c = type, .bias = true});
          }
        }
      }
    }
  });
}

TEST(CpuGemm, EveryTypePair) {
  on_every_level([] {
    for (DType a : floating_types) {
      for (DType b : floating_types) {
        for (DType c : floating_types) {
          check({.m = 19, .n = 29, .k = 67, .a = a, .b = b, .c = c});
          check({.m = 1, .n = 29, .k = 67, .a = a, .b = b, .c = c});
        }
      }
    }
  });
}

TEST(CpuGemm, EveryLayout) {
  on_every_level([] {
    for (DType type : {DType::f32, DType::f16, DType::bf16, DType::e5m2}) {
      for (int a = 0; a < 5; ++a) {
        for (int b = 0; b < 5; ++b) {
          for (int c = 0; c < 5; ++c) {
            check({.m = 35,
                   .n = 27,
                   .k = 45,
                   .a = type,
                   .b = type,
                   .a_layout = a,
                   .b_layout = b,
                   .c_layout = c});
          }
          check({.m = 1, .n = 27, .k = 45, .a = type, .b = type, .a_layout = a, .b_layout = b});
          check({.m = 35, .n = 1, .k = 45, .a = type, .b = type, .a_layout = a, .b_layout = b});
        }
      }
    }
  });
}

TEST(CpuGemm, EveryEpilogue) {
  on_every_level([] {
    for (Activation activation : {Activation::none, Activation::relu, Activation::gelu,
                                  Activation::gelu_tanh, Activation::silu}) {
      for (int64_t m : {1, 17}) {
        for (int64_t n : {1, 41}) {
          for (DType c : {DType::f32, DType::bf16, DType::f64}) {
            for (int flags = 0; flags < 8; ++flags) {
              check({.m = m,
                     .n = n,
                     .k = 23,
                     .a = c,
                     .b = c,
                     .c = c,
                     .alpha = (flags & 1) ? 0.75f : 1.0f,
                     .beta = (flags & 1) ? -1.5f : 0.0f,
                     .bias = (flags & 2) != 0,
                     .pre = (flags & 4) != 0,
                     .activation = activation});
            }
          }
        }
      }
    }
  });
}

TEST(CpuGemm, RoundsToTf32) {
  on_every_level([] {
    for (int64_t m : {1, 21}) {
      for (int64_t n : {1, 30}) {
        for (int layout : {0, 1, 3}) {
          check({.m = m, .n = n, .k = 50, .a_layout = layout, .b_layout = layout, .tf32 = true});
        }
      }
    }
    check({.m = 9, .n = 9, .k = 50, .a = DType::bf16, .b = DType::bf16, .tf32 = true});
  });
}

// A sum of one term shows the rounding itself: with tf32, 1 + 2^-12 becomes 1.
TEST(CpuGemm, Tf32ChangesTheOperandsOnly) {
  const float a[2] = {1 + 0x1p-12f, 1 + 0x1p-12f};
  const float b[2] = {1, 1};
  for (bool round : {false, true}) {
    float c[4];
    gemm({.m = 2,
          .n = 2,
          .k = 1,
          .a = {a, DType::f32, 1, 1},
          .b = {b, DType::f32, 2, 1},
          .c = {c, DType::f32, 2, 1},
          .epilogue = {.tf32 = round}});
    for (float x : c) EXPECT_EQ(x, round ? 1.0f : a[0]);
  }
}

TEST(CpuGemm, RandomCases) {
  on_every_level([] {
    Numbers numbers(7);
    for (uint32_t seed = 0; seed < 150; ++seed) {
      Case t{.m = 1 + numbers.below(150), .n = 1 + numbers.below(300), .k = numbers.below(180)};
      t.a = numbers.pick(floating_types);
      t.b = numbers.below(2) ? t.a : numbers.pick(floating_types);
      t.c = numbers.pick(floating_types);
      t.a_layout = static_cast<int>(numbers.below(5));
      t.b_layout = static_cast<int>(numbers.below(5));
      t.c_layout = static_cast<int>(numbers.below(5));
      t.alpha = numbers.below(2) ? 1.0f : 0.5f;
      t.beta = numbers.below(2) ? 0.0f : 1.0f;
      t.bias = numbers.below(2) != 0;
      t.pre = numbers.below(3) == 0;
      t.tf32 = numbers.below(4) == 0;
      t.activation = static_cast<Activation>(numbers.below(5));
      t.seed = seed;
      check(t);
    }
  });
}

// Past one K block, and past one K span.
TEST(CpuGemm, DeepMatmuls) {
  on_every_level([] {
    for (DType type : {DType::f32, DType::bf16, DType::f16}) {
      for (int64_t k : {511, 513, 1025, 2053, 16385}) {
        check({.m = 10,
               .n = 14,
               .k = k,
               .a = type,
               .b = type,
               .c = DType::f32,
               .b_layout = 1,
               .beta = 1});
      }
    }
    check({.m = 530, .n = 3, .k = 16390, .a = DType::bf16, .b = DType::bf16, .c = DType::f32});
    check({.m = 1, .n = 3, .k = 5000});
    check({.m = 3, .n = 1, .k = 5000, .a_layout = 1});
  });
}

// More columns, and more rows, than one span of packed operands holds.
TEST(CpuGemm, WideAndTallMatmuls) {
  on_every_level([] {
    check({.m = 3, .n = 5000, .k = 1100, .a = DType::f16, .b = DType::f32});
    check({.m = 5000, .n = 2, .k = 1100, .a = DType::f32, .b = DType::f16, .bias = true});
  });
}

// Outputs that are unchanged sums: complete micro-tiles are written directly, edges are not.
TEST(CpuGemm, PlainSums) {
  on_every_level([] {
    for (int64_t m : {5, 32, 150}) {
      for (int64_t n : {9, 96, 1100}) {
        for (DType type : {DType::f32, DType::bf16}) {
          check({.m = m, .n = n, .k = 40, .a = type, .b = type, .c = DType::f32});
        }
      }
    }
  });
}

TEST(CpuGemm, F64RoundsOnceToSmallOutputs) {
  // Just above the middle between 1 and the next bf16: an f32 in between would be that middle.
  const double a = 1 + std::ldexp(1.0, -8) + std::ldexp(1.0, -40), one = 1;
  bf16 c(0.0f);
  gemm({.m = 1,
        .n = 1,
        .k = 1,
        .a = {&a, DType::f64, 1, 1},
        .b = {&one, DType::f64, 1, 1},
        .c = {&c, DType::bf16, 1, 1}});
  EXPECT_EQ(static_cast<float>(c), 1 + std::ldexp(1.0f, -7));
}

TEST(CpuGemm, SameBitsForAnyThreadCount) {
  on_every_level([&] {
    for (DType type : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::e4m3}) {
      for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{{1, 700, 900},
                                                                       {900, 1, 700},
                                                                       {5, 9, 20000},
                                                                       {130, 250, 1100},
                                                                       {257, 100, 65},
                                                                       {64, 1025, 33}}) {
        const Case t{.m = m,
                     .n = n,
                     .k = k,
                     .a = type,
                     .b = type,
                     .c = type,
                     .b_layout = static_cast<int>(m % 2),
                     .alpha = 0.7f,
                     .beta = 0.3f,
                     .bias = true,
                     .activation = Activation::gelu};
        const ThreadCount one(1);
        const std::vector<char> expected = GemmRun(t).c.bytes;
        for (int count : {2, 3, 8}) {
          const ThreadCount several(count);
          EXPECT_EQ(GemmRun(t).c.bytes, expected) << t.describe() << ", " << count << " threads";
        }
      }
    }
  });
}

TEST(CpuGemm, NonFiniteOperandsReachTheirOutputsOnly) {
  on_every_level([] {
    for (DType type : {DType::f32, DType::bf16}) {
      Matrix a(type, 10, 20), b(type, 20, 15), c(DType::f32, 10, 15);
      Numbers numbers(3);
      a.fill(numbers);
      b.fill(numbers);
      a.set(4, 7, std::numeric_limits<double>::quiet_NaN());
      b.set(2, 9, std::numeric_limits<double>::infinity());
      gemm({.m = 10,
            .n = 15,
            .k = 20,
            .a = a.input(),
            .b = b.input(),
            .c = c.output(),
            .epilogue = {.activation = Activation::relu}});
      for (int64_t i = 0; i < 10; ++i) {
        for (int64_t j = 0; j < 15; ++j) {
          if (i == 4) {
            EXPECT_TRUE(std::isnan(c.get(i, j))) << i << ", " << j;
          } else if (j == 9) {
            EXPECT_EQ(c.get(i, j), a.get(i, 2) > 0 ? std::numeric_limits<double>::infinity() : 0)
                << i;
          } else {
            EXPECT_TRUE(std::isfinite(c.get(i, j))) << i << ", " << j;
          }
        }
      }
    }
  });
}

// Large arguments must neither overflow on the way nor lose the sign of the tail.
TEST(CpuGemm, ActivationsAtTheirEnds) {
  const float x[] = {-1e30f, -200, -100, -30, -10, -5, -1e-20f, 0, 1e-20f, 5, 30, 100, 200, 1e30f};
  constexpr int64_t n = std::size(x);
  const float one = 1;
  for (Activation activation :
       {Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu}) {
    float y[n];
    gemm({.m = 1,
          .n = n,
          .k = 1,
          .a = {&one, DType::f32, 1, 1},
          .b = {x, DType::f32, n, 1},
          .c = {y, DType::f32, n, 1},
          .epilogue = {.activation = activation}});
    for (int64_t i = 0; i < n; ++i) {
      const double expected = activate(activation, x[i]);
      EXPECT_NEAR(y[i], expected, 2e-6 * std::abs(expected) + 1e-37) << "x = " << x[i];
    }
  }
}

// A 16-bit output is the activation of its rounded argument, whether outputs are contiguous or not,
// and whether the argument is stored or not.
template <class T>
void expect_activations_of_rounded_arguments(DType type) {
  constexpr int64_t n = 3 << 16;  // arguments: every code, and numbers that T does not hold
  std::vector<float> x(n), rounded(n);
  Numbers numbers(5);
  for (int64_t i = 0; i < n; ++i) {
    x[i] = i < 1 << 16 ? static_cast<float>(T::from_bits(static_cast<uint16_t>(i)))
                       : static_cast<float>(8 * numbers.uniform());
    rounded[i] = static_cast<float>(static_cast<T>(x[i]));
  }
  const auto activations = [](std::vector<float>& bias, const OutputMatrix& y, Epilogue e) {
    e.bias = {bias.data(), DType::f32, {n}, {1}, true};
    gemm({.m = 2,
          .n = n,
          .k = 0,
          .a = {nullptr, DType::f32, 0, 1},
          .b = {nullptr, DType::f32, n, 1},
          .c = y,
          .epilogue = e});
  };
  for (Activation activation :
       {Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu}) {
    std::vector<float> twice(2 * n);
    activations(rounded, {twice.data(), DType::f32, n, 1}, {.activation = activation});
    for (const int64_t stride : {1, 2}) {
      std::vector<T> y(2 * n * stride), pre(2 * n);
      for (const bool keeps : {false, true}) {
        Epilogue e{.activation = activation};
        if (keeps) e.pre_activation = {pre.data(), type, {1, 2, n}, {2 * n, n, 1}, true};
        activations(x, {y.data(), type, n * stride, stride}, e);
        for (int64_t i = 0; i < 2 * n; ++i) {
          const float found = static_cast<float>(y[i * stride]), wanted = static_cast<T>(twice[i]);
          ASSERT_TRUE(found == wanted || (std::isnan(found) && std::isnan(wanted)))
              << found << " instead of " << wanted << " at " << x[i % n] << ", activation "
              << static_cast<int>(activation) << ", stride " << stride;
          if (!keeps || std::isnan(x[i % n])) continue;
          ASSERT_EQ(static_cast<float>(pre[i]), rounded[i % n]) << x[i % n];
        }
      }
    }
  }
}

TEST(CpuGemm, ActivationsOfRoundedArguments) {
  expect_activations_of_rounded_arguments<bf16>(DType::bf16);
  expect_activations_of_rounded_arguments<f16>(DType::f16);
}

TEST(CpuGemm, BatchedIsOneMatmulAfterAnother) {
  on_every_level([] {
    for (DType type : {DType::f32, DType::bf16}) {
      for (int64_t batch : {0, 1, 2, 7}) {
        for (bool shared_a : {false, true}) {
          for (bool shared_b : {false, true}) {
            constexpr int64_t m = 13, n = 21, k = 17;
            Matrix a(type, batch * m + 1, k), b(type, batch * k + 1, n), c(type, batch * m + 1, n),
                pre(c), bias(type, 1, n);
            Numbers numbers(11);
            a.fill(numbers);
            b.fill(numbers);
            bias.fill(numbers);
            Matrix expected = c, expected_pre = pre;
            const auto run = [&](int64_t first, int64_t count, Matrix& c, Matrix& pre) {
              gemm({.batch = count,
                    .m = m,
                    .n = n,
                    .k = k,
                    .a = {a.at(shared_a ? 0 : first * m, 0), type, k, 1, shared_a ? 0 : m * k},
                    .b = {b.at(shared_b ? 0 : first * k, 0), type, n, 1, shared_b ? 0 : k * n},
                    .c = {c.at(first * m, 0), type, n, 1, m * n},
                    .epilogue = {
                        .bias = bias.view(),
                        .activation = Activation::silu,
                        .pre_activation = {
                            pre.at(first * m, 0), type, {count, m, n}, {m * n, n, 1}, true}}});
            };
            for (int64_t i = 0; i < batch; ++i) run(i, 1, expected, expected_pre);
            run(0, batch, c, pre);
            EXPECT_EQ(c.bytes, expected.bytes) << batch << shared_a << shared_b;
            EXPECT_EQ(pre.bytes, expected_pre.bytes) << batch << shared_a << shared_b;
          }
        }
      }
    }
  });
}

TEST(CpuGemm, InsideAParallelLoop) {
  constexpr int64_t size = 50, count = 6;
  Matrix a(DType::f32, size, size), b(a);
  Numbers numbers(5);
  a.fill(numbers);
  b.fill(numbers);
  const auto multiply = [&](Matrix& c) {
    gemm({.m = size, .n = size, .k = size, .a = a.input(), .b = b.input(), .c = c.output()});
  };
  std::vector<Matrix> results(count, a);
  parallel_for(count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) multiply(results[i]);
  });
  Matrix expected(a);
  multiply(expected);
  for (const Matrix& result : results) EXPECT_EQ(result.bytes, expected.bytes);
}

TEST(CpuGemm, RefusesNegativeSizes) {
  float x = 0;
  const GemmProblem valid{.m = 1,
                          .n = 1,
                          .k = 1,
                          .a = {&x, DType::f32, 1, 1},
                          .b = {&x, DType::f32, 1, 1},
                          .c = {&x, DType::f32, 1, 1}};
  gemm(valid);
  for (int64_t GemmProblem::*size :
       {&GemmProblem::batch, &GemmProblem::m, &GemmProblem::n, &GemmProblem::k}) {
    GemmProblem problem = valid;
    problem.*size = -1;
    EXPECT_THROW(gemm(problem), Error);
  }
}

TEST(CpuGemmLevels, StartWithThePortableOne) {
  ASSERT_FALSE(available_levels().empty());
  EXPECT_EQ(available_levels().front().name, "portable");
}

TEST(CpuGemmLevels, RefuseOneTheCpuLacks) {
  const std::string before(current_level().name);
  EXPECT_THROW(set_level("abacus"), Error);
  EXPECT_EQ(current_level().name, before);
}

// Products of bf16 are exact in f32, so kernels differ only by the rounding of sums.
TEST(CpuGemmLevels, AgreeWithinTheRoundingOfSums) {
  constexpr int64_t m = 40, n = 50, k = 300;
  Matrix a(DType::bf16, m, k), b(DType::bf16, k, n), first(DType::f32, m, n), c(first);
  Numbers numbers(17);
  a.fill(numbers);
  b.fill(numbers);
  bool have_first = false;
  on_every_level([&] {
    gemm({.m = m, .n = n, .k = k, .a = a.input(), .b = b.input(), .c = c.output()});
    if (!have_first) first = c;
    have_first = true;
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        EXPECT_NEAR(c.get(i, j), first.get(i, j), 2 * k * formats::spec::f32.epsilon() * k)
            << current_level().name;
      }
    }
  });
}

}  // namespace
}  // namespace binade::backend::cpu::gemm_test
