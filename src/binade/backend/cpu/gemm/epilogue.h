#pragma once

#include <cstdint>

#include "binade/backend/matmul.h"

namespace binade::backend::cpu {

// Whether an activation's argument is rounded to the output's type first.
constexpr bool rounds_first(const Epilogue& epilogue, DType c_type) {
  return epilogue.activation != Activation::none && size_of(c_type) == 2;
}

// Addresses of a run of outputs: adjacent in a row, or in a column of a one-column result.
struct OutputRun {
  void* c;
  DType c_type;
  int64_t c_stride;
  void* pre_activation;  // or null
  int64_t pre_stride;
};

// `rows` runs of `count` sums, to be turned into outputs.
template <class T>
struct SumRows {
  T* sums;  // overwritten
  int64_t sums_stride = 0;
  int64_t rows = 1, count = 0;
  const T* bias = nullptr;  // `count` values or null; the epilogue's own bias is not read
  OutputRun first;          // of the first row
  int64_t c_row_stride = 0;
};

// Turns sums into outputs by the epilogue's rule and stores them. The epilogue's pre-activation
// says the type and the row stride of `pre_activation`.
void finish_rows(const Epilogue& epilogue, const SumRows<float>& rows);
void finish_rows(const Epilogue& epilogue, const SumRows<double>& rows);

}  // namespace binade::backend::cpu
