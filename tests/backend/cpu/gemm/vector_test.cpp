#include <gtest/gtest.h>

#include "backend/cpu/gemm/cases.h"

// Products with one row or one column.
namespace binade::backend::cpu::vector_test {
namespace {

using gemm_cases::Case;
using gemm_cases::GemmRun;
using gemm_cases::Matrix;
using gemm_cases::Numbers;

// Small whole numbers: every sum is exact in f32, whatever its order.
void fill_whole(Matrix& x, Numbers& numbers) {
  for (int64_t i = 0; i < x.rows; ++i) {
    for (int64_t j = 0; j < x.columns; ++j) x.set(i, j, static_cast<double>(numbers.below(5)) - 2);
  }
}

struct Sizes {
  int64_t m, n, k;
};

// k passes the blocks of every kernel, with and without a rest; n several panels of outputs.
constexpr Sizes exact_sizes[] = {{1, 1, 5000}, {1, 7, 5000},    {1, 37, 2048}, {1, 1500, 1025},
                                 {7, 1, 5000}, {1500, 1, 1025}, {1, 64, 1023}, {3, 1, 1024}};

void expect_exact(const Sizes& s, DType type, int a_layout, int b_layout, bool tf32) {
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

TEST(CpuVector, AnyDepthAndLayout) {
  for (const Sizes& s : exact_sizes) {
    for (const DType type : gemm_cases::floating_types) {
      for (const int layout : {0, 1, 3}) expect_exact(s, type, layout, layout, false);
      expect_exact(s, type, 0, 1, false);
      expect_exact(s, type, 1, 0, false);
    }
    expect_exact(s, DType::f32, 0, 0, true);
    expect_exact(s, DType::f32, 0, 1, true);
  }
}

// The bits of row `row` and column `column` of A B, computed by themselves and as a part of A B.
void expect_bits_of_whole(const Case& t, int64_t row, int64_t column) {
  SCOPED_TRACE(t.describe());
  GemmRun whole(t);
  Matrix alone_row(t.c, 1, t.n), alone_column(t.c, t.m, 1);
  const Epilogue epilogue{.activation = t.activation, .tf32 = t.tf32};
  InputMatrix a = whole.a.input(), b = whole.b.input();
  a.data = whole.a.at(row, 0);
  gemm({.m = 1, .n = t.n, .k = t.k, .a = a, .b = b, .c = alone_row.output(), .epilogue = epilogue});
  for (int64_t j = 0; j < t.n; ++j)
    ASSERT_EQ(alone_row.get(0, j), whole.c.get(row, j)) << "row " << row << ", column " << j;
  a = whole.a.input();
  b.data = whole.b.at(0, column);
  gemm({.m = t.m,
        .n = 1,
        .k = t.k,
        .a = a,
        .b = b,
        .c = alone_column.output(),
        .epilogue = epilogue});
  for (int64_t i = 0; i < t.m; ++i)
    ASSERT_EQ(alone_column.get(i, 0), whole.c.get(i, column))
        << "row " << i << ", column " << column;
}

// Values whose sums depend on their order: with one accumulator more, or a block of another length,
// most of these outputs differ.
TEST(CpuVector, ARowOrColumnHasTheBitsOfTheWhole) {
  const std::string before(current_level().name);
  for (const Level& level : available_levels()) {
    set_level(level.name);
    for (const int64_t k : {0, 1, 3, 31, 300, 513, 2050, 4096, 16384 + 700}) {
      for (const DType type : gemm_cases::floating_types) {
        for (const int layout : {0, 1, 3}) {
          const int64_t n = layout == 0 ? 13 : 101;
          expect_bits_of_whole({.m = 5,
                                .n = n,
                                .k = k,
                                .a = type,
                                .b = type,
                                .a_layout = layout,
                                .b_layout = layout},
                               k % 5, n - 1 - k % 3);
        }
      }
    }
    expect_bits_of_whole({.m = 7, .n = 29, .k = 1000, .a = DType::bf16, .b = DType::f32}, 3, 28);
    expect_bits_of_whole({.m = 7,
                          .n = 29,
                          .k = 1000,
                          .c = DType::bf16,
                          .b_layout = 1,
                          .tf32 = true,
                          .activation = Activation::gelu},
                         6, 0);
  }
  set_level(before);
}

}  // namespace
}  // namespace binade::backend::cpu::vector_test
