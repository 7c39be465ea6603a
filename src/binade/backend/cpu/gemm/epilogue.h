#pragma once

#include <cstdint>

#include "binade/backend/cpu/gemm/gemm.h"

namespace binade::backend::cpu {

// Whether an activation's argument is rounded to the output's type first.
constexpr bool rounds_first(const Epilogue& epilogue, Element c_type) {
  return epilogue.activation != Activation::none && element_size(c_type) == 2;
}

// Where a run of outputs goes: neighbours in a row, or in a column of a one-column product.
struct OutputRun {
  void* c;
  int64_t c_stride;
  void* pre_activation;  // or null
  int64_t pre_stride;
};

// Turns `count` sums into outputs by the epilogue's rule and stores them. `bias` holds f32 values
// for the run or is null; the epilogue's own bias pointer is not looked at. Overwrites `sums`.
void finish_run(float* sums, int64_t count, const float* bias, const Epilogue& epilogue,
                Element c_type, const OutputRun& run);

// The same in f64.
void finish_run(double* sums, int64_t count, const double* bias, const Epilogue& epilogue,
                Element c_type, const OutputRun& run);

// `rows` runs of `count` sums: row after row `sums_stride` apart, and their outputs c_row_stride
// (of the pre-activations: the epilogue's pre_row_stride) elements apart. `first` is the first
// row's.
void finish_rows(float* sums, int64_t sums_stride, int64_t rows, int64_t count, const float* bias,
                 const Epilogue& epilogue, Element c_type, const OutputRun& first,
                 int64_t c_row_stride);

}  // namespace binade::backend::cpu
