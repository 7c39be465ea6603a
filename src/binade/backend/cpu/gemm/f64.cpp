#include <algorithm>

#include "binade/backend/cpu/gemm/convert.h"
#include "binade/backend/cpu/gemm/epilogue.h"
#include "binade/backend/cpu/gemm/scratch.h"
#include "binade/backend/cpu/gemm/variants.h"
#include "binade/base/division.h"
#include "binade/base/parallel.h"

namespace binade::backend::cpu {
namespace {

// Columns per work item and rows that share a loaded element of B: 4 x 32 sums fit the L1 cache and
// leave the compiler independent chains to vectorize.
constexpr int64_t strip = 32;
constexpr int64_t row_block = 4;

// sums[r][j] = sum over k of a[r][k] * b[k][j].
void multiply(const double* a, const double* b, int64_t k, double (*sums)[strip]) {
  std::fill_n(&sums[0][0], row_block * strip, 0.0);
  for (int64_t p = 0; p < k; ++p, b += strip) {
    for (int64_t r = 0; r < row_block; ++r) {
      const double factor = a[r * k + p];
      for (int64_t j = 0; j < strip; ++j) sums[r][j] += factor * b[j];
    }
  }
}

const void* at(const InputMatrix& x, int64_t row, int64_t column) {
  return advance(x.data, x.dtype, row * x.row_stride + column * x.col_stride);
}

void compute_strip(const GemmProblem& p, int64_t column) {
  const Epilogue& e = p.epilogue;
  const int64_t columns = std::min(strip, p.n - column);
  GemmScratch& scratch = gemm_scratch();
  double* b = scratch.packed_b.get<double>(std::max<int64_t>(p.k, 1) * strip);
  double* a = scratch.packed_a.get<double>(std::max<int64_t>(p.k, 1) * row_block);
  std::fill_n(b, p.k * strip, 0.0);
  for (int64_t i = 0; i < p.k; ++i) {
    read_elements(at(p.b, i, column), p.b.dtype, p.b.col_stride, columns, b + i * strip);
  }
  double bias[strip];
  if (e.bias.present) {
    read_elements(advance(e.bias.data, e.bias.dtype, column), e.bias.dtype, 1, columns, bias);
  }
  for (int64_t row = 0; row < p.m; row += row_block) {
    const int64_t rows = std::min(row_block, p.m - row);
    std::fill_n(a, p.k * row_block, 0.0);
    for (int64_t r = 0; r < rows; ++r) {
      read_elements(at(p.a, row + r, 0), p.a.dtype, p.a.col_stride, p.k, a + r * p.k);
    }
    double sums[row_block][strip];
    multiply(a, b, p.k, sums);
    void* pre = nullptr;
    if (e.pre_activation.present) {
      pre = advance(e.pre_activation.data, e.pre_activation.dtype,
                    row * e.pre_activation.strides[1] + column);
    }
    finish_rows(
        e, SumRows<double>{.sums = &sums[0][0],
                           .sums_stride = strip,
                           .rows = rows,
                           .count = columns,
                           .bias = e.bias.present ? bias : nullptr,
                           .first = {.c = advance(p.c.data, p.c.dtype,
                                                  row * p.c.row_stride + column * p.c.col_stride),
                                     .c_type = p.c.dtype,
                                     .c_stride = p.c.col_stride,
                                     .pre_activation = pre,
                                     .pre_stride = 1},
                           .c_row_stride = p.c.row_stride});
  }
}

}  // namespace

void gemm_f64(const GemmProblem& p) {
  parallel_for(divide_up(p.n, strip), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) compute_strip(p, i * strip);
  });
}

}  // namespace binade::backend::cpu
