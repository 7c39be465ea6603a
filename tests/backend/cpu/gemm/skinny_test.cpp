#include <gtest/gtest.h>

#include "backend/cpu/gemm/cases.h"

// Products with one row or one column. Operands are small whole numbers, so that every sum is exact
// in f32 whatever its order.
namespace binade::backend::cpu::skinny_test {
namespace {

using gemm_cases::Matrix;
using gemm_cases::Numbers;

void fill_whole(Matrix& x, Numbers& numbers) {
  for (int64_t i = 0; i < x.rows; ++i) {
    for (int64_t j = 0; j < x.columns; ++j) x.set(i, j, static_cast<double>(numbers.below(5)) - 2);
  }
}

struct Skinny {
  int64_t m, n, k;
};

// k passes the partial sums of 1024, with and without a rest; n the strips of 1024 outputs.
constexpr Skinny skinny_sizes[] = {{1, 1, 5000}, {1, 7, 5000},    {1, 37, 2048}, {1, 1500, 1025},
                                   {7, 1, 5000}, {1500, 1, 1025}, {1, 64, 1023}, {3, 1, 1024}};

void expect_exact(const Skinny& s, DType type, int a_layout, int b_layout, bool tf32) {
  Matrix a(type, s.m, s.k, a_layout), b(type, s.k, s.n, b_layout), c(DType::f32, s.m, s.n);
  Numbers numbers(static_cast<uint32_t>(s.k + s.n));
  fill_whole(a, numbers);
  fill_whole(b, numbers);
  c.fill_nan();
  gemm({.m = s.m,
        .n = s.n,
        .k = s.k,
        .a = a.input(),
        .b = b.input(),
        .c = c.output(),
        .epilogue = {.tf32 = tf32}});
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t j = 0; j < s.n; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < s.k; ++p) sum += a.get(i, p) * b.get(p, j);
      ASSERT_EQ(c.get(i, j), sum) << s.m << "x" << s.n << "x" << s.k << " "
                                  << gemm_cases::spec_of(type).name << " layouts " << a_layout
                                  << b_layout << " tf32 " << tf32 << " at " << i << ", " << j;
    }
  }
}

TEST(CpuSkinny, AnyDepthAndLayout) {
  for (const Skinny& s : skinny_sizes) {
    for (const DType type : gemm_cases::floating_types) {
      for (const int layout : {0, 1, 3}) expect_exact(s, type, layout, layout, false);
      expect_exact(s, type, 0, 1, false);
      expect_exact(s, type, 1, 0, false);
    }
    expect_exact(s, DType::f32, 0, 0, true);
    expect_exact(s, DType::f32, 0, 1, true);
  }
}

}  // namespace
}  // namespace binade::backend::cpu::skinny_test
