#pragma once

#include <cstdint>

#include "binade/backend/cpu/gemm.h"

namespace binade::backend::cpu {

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

}  // namespace binade::backend::cpu
