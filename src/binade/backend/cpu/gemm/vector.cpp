#include "binade/backend/cpu/gemm/vector.h"

#include <algorithm>

#include "binade/backend/cpu/gemm/convert.h"
#include "binade/backend/cpu/gemm/epilogue.h"
#include "binade/backend/cpu/gemm/scratch.h"
#include "binade/backend/cpu/gemm/variants.h"

namespace binade::backend::cpu {

void gemm_vector(const GemmProblem& p, const Kernel& kernel) {
  const Epilogue& e = p.epilogue;
  const bool row = p.m == 1;  // a row of outputs, else a column
  const int64_t outputs = row ? p.n : p.m;
  const OperandRows a{p.a.data, p.a.dtype, p.a.row_stride, p.a.col_stride, e.tf32},
      b{p.b.data, p.b.dtype, p.b.col_stride, p.b.row_stride, e.tf32};
  GemmScratch& scratch = gemm_scratch();
  const VectorProduct product{.matrix = row ? b : a,
                              .vector = row ? a : b,
                              .outputs = outputs,
                              .k = p.k,
                              .sums = scratch.sums.get<float>(outputs + VectorProduct::spare)};
  kernel.row == nullptr ? multiply_by_fma(product, kernel) : multiply_packed(product, kernel);

  float* bias = nullptr;
  if (e.bias.present) {
    bias = scratch.tile.get<float>(outputs);
    read_elements(e.bias.data, e.bias.dtype, 1, row ? p.n : 1, bias);
    if (!row) std::fill_n(bias, outputs, bias[0]);
  }
  const TensorView& pre = e.pre_activation;
  finish_rows(e, SumRows<float>{.sums = product.sums,
                                .count = outputs,
                                .bias = bias,
                                .first = {.c = p.c.data,
                                          .c_type = p.c.dtype,
                                          .c_stride = row ? p.c.col_stride : p.c.row_stride,
                                          .pre_activation = pre.present ? pre.data : nullptr,
                                          .pre_stride = row || !pre.present ? 1 : pre.strides[1]}});
}

}  // namespace binade::backend::cpu
