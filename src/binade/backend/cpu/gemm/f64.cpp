#include <algorithm>

#include "binade/backend/cpu/gemm/convert.h"
#include "binade/backend/cpu/gemm/epilogue.h"
#include "binade/backend/cpu/gemm/scratch.h"
#include "binade/backend/cpu/gemm/variants.h"
#include "binade/base/parallel.h"

namespace binade::backend::cpu {
namespace {

constexpr int64_t strip = 32;     // columns a thread works on at a time
constexpr int64_t row_block = 4;  // rows that share each element of B once it is loaded

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

const void* at(const Operand& x, int64_t row, int64_t column) {
  return advance(x.data, x.type, row * x.row_stride + column * x.col_stride);
}

void compute_strip(const Problem& p, int64_t column) {
  const Epilogue& e = p.epilogue;
  const int64_t columns = std::min(strip, p.n - column);
  GemmScratch& scratch = gemm_scratch();
  double* b = scratch.packed_b.get<double>(std::max<int64_t>(p.k, 1) * strip);
  double* a = scratch.packed_a.get<double>(std::max<int64_t>(p.k, 1) * row_block);
  std::fill_n(b, p.k * strip, 0.0);
  for (int64_t i = 0; i < p.k; ++i) {
    read_elements(at(p.b, i, column), p.b.type, p.b.col_stride, columns, b + i * strip);
  }
  double bias[strip];
  if (e.bias != nullptr) {
    read_elements(advance(e.bias, e.bias_type, column), e.bias_type, 1, columns, bias);
  }
  for (int64_t row = 0; row < p.m; row += row_block) {
    const int64_t rows = std::min(row_block, p.m - row);
    std::fill_n(a, p.k * row_block, 0.0);
    for (int64_t r = 0; r < rows; ++r) {
      read_elements(at(p.a, row + r, 0), p.a.type, p.a.col_stride, p.k, a + r * p.k);
    }
    double sums[row_block][strip];
    multiply(a, b, p.k, sums);
    for (int64_t r = 0; r < rows; ++r) {
      void* c = advance(p.c.data, p.c.type, (row + r) * p.c.row_stride + column * p.c.col_stride);
      void* pre = e.pre_activation;
      if (pre != nullptr)
        pre = advance(pre, e.pre_activation_type, (row + r) * e.pre_row_stride + column);
      finish_run(sums[r], columns, e.bias != nullptr ? bias : nullptr, e, p.c.type,
                 {c, p.c.col_stride, pre, 1});
    }
  }
}

}  // namespace

void gemm_f64(const Problem& p) {
  parallel_for((p.n + strip - 1) / strip, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) compute_strip(p, i * strip);
  });
}

}  // namespace binade::backend::cpu
