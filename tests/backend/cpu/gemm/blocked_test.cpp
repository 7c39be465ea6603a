#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "backend/cpu/gemm/cases.h"
#include "binade/backend/cpu/gemm/variants.h"
#include "support/thread_count.h"

// gemm_blocked with kernels of other shapes than this machine's: cache blocking, the width of
// strips and the depth of blocks must not change results.
namespace binade::backend::cpu::blocked_test {
namespace {

using gemm_cases::Matrix;
using gemm_cases::Numbers;

struct Shape {
  int64_t m, n, k;
};
// The deepest one takes a second span of 50.
const Shape shapes[] = {{5, 300, 769}, {37, 50, 1500}, {130, 70, 2100},
                        {300, 9, 800}, {64, 96, 0},    {20, 40, 16434}};

Kernel with(bool a_in_l1, int64_t kc, int64_t strip, int64_t columns) {
  Kernel kernel = portable_kernel;
  kernel.a_in_l1 = a_in_l1;
  kernel.kc = kc;
  kernel.strip = strip;
  kernel.columns = columns;
  return kernel;
}

struct GemmRun {
  Matrix a, b, c;

  GemmRun(const Shape& s, const Kernel& kernel, const Epilogue& epilogue = {})
      : a(DType::f32, s.m, s.k), b(DType::f32, s.k, s.n, 1), c(DType::f32, s.m, s.n, 2) {
    Numbers numbers(7);
    a.fill(numbers);
    b.fill(numbers);
    c.fill_nan();
    gemm_blocked({.m = s.m,
                  .n = s.n,
                  .k = s.k,
                  .a = a.input(),
                  .b = b.input(),
                  .c = c.output(),
                  .epilogue = epilogue},
                 kernel);
  }
};

TEST(CpuGemmBlocked, StripsWidthsAndThreadsDoNotChangeBits) {
  std::vector<float> values(300, 0.25f);
  const TensorView bias{values.data(), DType::f32, {300}, {1}, true};
  for (const Shape& s : shapes) {
    for (const int64_t kc : {256, 1024, 4096}) {
      for (const Epilogue& epilogue :
           {Epilogue{}, Epilogue{.bias = bias, .activation = Activation::gelu_tanh}}) {
        const ThreadCount one(1);
        const std::vector<char> expected = GemmRun(s, with(false, kc, 384, 1024), epilogue).c.bytes;
        for (const int count : {1, 3, 8}) {
          const ThreadCount threads(count);
          for (const auto& [a_in_l1, strip] : {std::pair(true, 8), {true, 40}, {false, 40}}) {
            EXPECT_EQ(GemmRun(s, with(a_in_l1, kc, strip, 48), epilogue).c.bytes, expected)
                << s.m << " x " << s.n << " x " << s.k << ", kc " << kc << ", strip " << strip
                << ", " << count << " threads, panels of " << (a_in_l1 ? "A" : "B") << " stay";
          }
        }
      }
    }
  }
}

TEST(CpuGemmBlocked, DeepPanelsAgreeWithDouble) {
  for (const Shape& s : shapes) {
    auto [a, b, c] = GemmRun(s, with(true, 4096, 40, 48));
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = 0; j < s.n; ++j) {
        double sum = 0, size = 0;
        for (int64_t x = 0; x < s.k; ++x) {
          sum += a.get(i, x) * b.get(x, j);
          size += std::abs(a.get(i, x) * b.get(x, j));
        }
        ASSERT_NEAR(c.get(i, j), sum, static_cast<double>(s.k) * 0x1p-24 * size)
            << s.m << " x " << s.n << " x " << s.k << " at " << i << ", " << j;
      }
    }
  }
}

}  // namespace
}  // namespace binade::backend::cpu::blocked_test
