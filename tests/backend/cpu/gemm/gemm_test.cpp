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

namespace binade::backend::cpu {
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
          for (Element type : {Element::f32, Element::bf16}) {
            check({.m = m, .n = n, .k = k, .a = type, .b = type, .c = type, .bias = true});
          }
        }
      }
    }
  });
}

TEST(CpuGemm, EveryTypePair) {
  on_every_level([] {
    for (Element a : all_elements) {
      for (Element b : all_elements) {
        for (Element c : all_elements) {
          check({.m = 19, .n = 29, .k = 67, .a = a, .b = b, .c = c});
          check({.m = 1, .n = 29, .k = 67, .a = a, .b = b, .c = c});
        }
      }
    }
  });
}

TEST(CpuGemm, EveryLayout) {
  on_every_level([] {
    for (Element type : {Element::f32, Element::f16, Element::bf16, Element::e5m2}) {
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
          for (Element c : {Element::f32, Element::bf16, Element::f64}) {
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
    check({.m = 9, .n = 9, .k = 50, .a = Element::bf16, .b = Element::bf16, .tf32 = true});
  });
}

// A sum of one term shows the rounding itself: 1 + 2^-12 becomes 1, and stays where it is not asked
// for.
TEST(CpuGemm, Tf32ChangesTheOperandsOnly) {
  const float a[2] = {1 + 0x1p-12f, 1 + 0x1p-12f};
  const float b[2] = {1, 1};
  for (bool round : {false, true}) {
    float c[4];
    gemm(2, 2, 1, {a, Element::f32, 1, 1}, {b, Element::f32, 2, 1}, {c, Element::f32, 2, 1},
         {.round_tf32 = round});
    for (float x : c) EXPECT_EQ(x, round ? 1.0f : a[0]);
  }
}

TEST(CpuGemm, RandomCases) {
  on_every_level([] {
    Numbers numbers(7);
    for (uint32_t seed = 0; seed < 150; ++seed) {
      Case t{.m = 1 + numbers.below(150), .n = 1 + numbers.below(300), .k = numbers.below(180)};
      t.a = numbers.pick(all_elements);
      t.b = numbers.below(2) ? t.a : numbers.pick(all_elements);
      t.c = numbers.pick(all_elements);
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
TEST(CpuGemm, DeepProducts) {
  on_every_level([] {
    for (Element type : {Element::f32, Element::bf16, Element::f16}) {
      for (int64_t k : {511, 513, 1025, 2053, 16385}) {
        check({.m = 10,
               .n = 14,
               .k = k,
               .a = type,
               .b = type,
               .c = Element::f32,
               .b_layout = 1,
               .beta = 1});
      }
    }
    check(
        {.m = 530, .n = 3, .k = 16390, .a = Element::bf16, .b = Element::bf16, .c = Element::f32});
    check({.m = 1, .n = 3, .k = 5000});
    check({.m = 3, .n = 1, .k = 5000, .a_layout = 1});
  });
}

// More columns, and more rows, than one span of packed operands holds.
TEST(CpuGemm, WideAndTallProducts) {
  on_every_level([] {
    check({.m = 3, .n = 5000, .k = 1100, .a = Element::f16, .b = Element::f32});
    check({.m = 5000, .n = 2, .k = 1100, .a = Element::f32, .b = Element::f16, .bias = true});
  });
}

// Sums that are outputs as they are: whole micro-tiles take another way than the edges around them.
TEST(CpuGemm, PlainSums) {
  on_every_level([] {
    for (int64_t m : {5, 32, 150}) {
      for (int64_t n : {9, 96, 1100}) {
        for (Element type : {Element::f32, Element::bf16}) {
          check({.m = m, .n = n, .k = 40, .a = type, .b = type, .c = Element::f32});
        }
      }
    }
  });
}

TEST(CpuGemm, F64RoundsOnceToSmallOutputs) {
  // Just above the middle between 1 and the next bf16: an f32 in between would be that middle.
  const double a = 1 + std::ldexp(1.0, -8) + std::ldexp(1.0, -40), one = 1;
  bf16 c(0.0f);
  gemm(1, 1, 1, {&a, Element::f64, 1, 1}, {&one, Element::f64, 1, 1}, {&c, Element::bf16, 1, 1});
  EXPECT_EQ(static_cast<float>(c), 1 + std::ldexp(1.0f, -7));
}

TEST(CpuGemm, SameBitsForAnyThreadCount) {
  on_every_level([&] {
    for (Element type : {Element::f64, Element::f32, Element::f16, Element::bf16, Element::e4m3}) {
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
        const std::vector<char> expected = Product(t).c.bytes;
        for (int count : {2, 3, 8}) {
          const ThreadCount several(count);
          EXPECT_EQ(Product(t).c.bytes, expected) << t.describe() << ", " << count << " threads";
        }
      }
    }
  });
}

TEST(CpuGemm, NonFiniteOperandsReachTheirOutputsOnly) {
  on_every_level([] {
    for (Element type : {Element::f32, Element::bf16}) {
      Matrix a(type, 10, 20), b(type, 20, 15), c(Element::f32, 10, 15);
      Numbers numbers(3);
      a.fill(numbers);
      b.fill(numbers);
      a.set(4, 7, std::numeric_limits<double>::quiet_NaN());
      b.set(2, 9, std::numeric_limits<double>::infinity());
      gemm(10, 15, 20, a.operand(), b.operand(), c.output(), {.activation = Activation::relu});
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
    gemm(1, n, 1, {&one, Element::f32, 1, 1}, {x, Element::f32, n, 1}, {y, Element::f32, n, 1},
         {.activation = activation});
    for (int64_t i = 0; i < n; ++i) {
      const double expected = activate(activation, x[i]);
      EXPECT_NEAR(y[i], expected, 2e-6 * std::abs(expected) + 1e-37) << "x = " << x[i];
    }
  }
}

// Of 16 bits, an output is the activation of what its argument is rounded to: the same whether
// neighbours lie side by side or not, and whether the argument is kept or not.
template <class T>
void expect_activations_of_rounded_arguments(Element type) {
  constexpr int64_t n = 3 << 16;  // arguments: every code, and numbers that T does not hold
  std::vector<float> x(n), rounded(n);
  Numbers numbers(5);
  for (int64_t i = 0; i < n; ++i) {
    x[i] = i < 1 << 16 ? static_cast<float>(T::from_bits(static_cast<uint16_t>(i)))
                       : static_cast<float>(8 * numbers.uniform());
    rounded[i] = static_cast<float>(static_cast<T>(x[i]));
  }
  const auto activations = [](const std::vector<float>& bias, Output y, Epilogue e) {
    e.bias = bias.data();
    gemm(2, n, 0, {nullptr, Element::f32, 0, 1}, {nullptr, Element::f32, n, 1}, y, e);
  };
  for (Activation activation :
       {Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu}) {
    std::vector<float> twice(2 * n);
    activations(rounded, {twice.data(), Element::f32, n, 1}, {.activation = activation});
    for (const int64_t stride : {1, 2}) {
      std::vector<T> y(2 * n * stride), pre(2 * n);
      for (const bool keeps : {false, true}) {
        Epilogue e{.activation = activation};
        if (keeps) e.pre_activation = pre.data(), e.pre_activation_type = type;
        e.pre_row_stride = n;
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
  expect_activations_of_rounded_arguments<bf16>(Element::bf16);
  expect_activations_of_rounded_arguments<f16>(Element::f16);
}

TEST(CpuGemm, BatchedIsOneProductAfterAnother) {
  on_every_level([] {
    for (Element type : {Element::f32, Element::bf16}) {
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
            Epilogue e{
                .bias = bias.bytes.data(), .bias_type = type, .activation = Activation::silu};
            e.pre_activation_type = type;
            e.pre_row_stride = n;
            e.pre_batch_stride = m * n;
            for (int64_t i = 0; i < batch; ++i) {
              e.pre_activation = expected_pre.at(i * m, 0);
              gemm(m, n, k, {a.at(shared_a ? 0 : i * m, 0), type, k, 1},
                   {b.at(shared_b ? 0 : i * k, 0), type, n, 1}, {expected.at(i * m, 0), type, n, 1},
                   e);
            }
            e.pre_activation = pre.bytes.data();
            gemm_batched(batch, m, n, k, a.operand(), shared_a ? 0 : m * k, b.operand(),
                         shared_b ? 0 : k * n, c.output(), m * n, e);
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
  Matrix a(Element::f32, size, size), b(a);
  Numbers numbers(5);
  a.fill(numbers);
  b.fill(numbers);
  std::vector<Matrix> results(count, a);
  parallel_for(count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      gemm(size, size, size, a.operand(), b.operand(), results[i].output());
  });
  Matrix expected(a);
  gemm(size, size, size, a.operand(), b.operand(), expected.output());
  for (const Matrix& result : results) EXPECT_EQ(result.bytes, expected.bytes);
}

TEST(CpuGemm, RefusesNegativeSizes) {
  float x = 0;
  EXPECT_THROW(
      gemm(-1, 1, 1, {&x, Element::f32, 1, 1}, {&x, Element::f32, 1, 1}, {&x, Element::f32, 1, 1}),
      Error);
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

// bf16 products are exact in f32, so kernels differ by the rounding of sums alone.
TEST(CpuGemmLevels, AgreeWithinTheRoundingOfSums) {
  constexpr int64_t m = 40, n = 50, k = 300;
  Matrix a(Element::bf16, m, k), b(Element::bf16, k, n), first(Element::f32, m, n), c(first);
  Numbers numbers(17);
  a.fill(numbers);
  b.fill(numbers);
  bool have_first = false;
  on_every_level([&] {
    gemm(m, n, k, a.operand(), b.operand(), c.output());
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
}  // namespace binade::backend::cpu
