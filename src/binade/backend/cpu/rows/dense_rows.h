#pragma once

#include <cstdint>
#include <string_view>

#include "binade/tensor/tensor.h"

// How CPU kernels read and write dense data: a run of elements at a time, computed on as float
// (double for f64), so that a kernel is written once whatever its tensors' types are.
namespace binade::backend::cpu {

// Calls f with TypeTag<double> where dtype is f64 and TypeTag<float> for f32, f16, bf16.
template <class F>
void with_compute_type(std::string_view op, DType dtype, F&& f) {
  if (dtype == DType::f64) {
    f(TypeTag<double>{});
  } else if (is_compute(dtype)) {
    f(TypeTag<float>{});
  } else {
    fail(op, {.argument = "dtype",
              .expected = "f64, f32, f16 or bf16",
              .found = std::string(name(dtype))});
  }
}

// Elements [offset, offset + n) of dense x as T: points into x itself where its type is T, else
// converts into scratch (room for n).
const float* load(const TensorView& x, int64_t offset, int64_t n, float* scratch);
const double* load(const TensorView& x, int64_t offset, int64_t n, double* scratch);

// Writes n values to dense y from `offset`, rounded once as backend/cast.h has it; adds to what is
// there if `accumulate`.
void store(const float* values, const TensorView& y, int64_t offset, int64_t n,
           bool accumulate = false);
void store(const double* values, const TensorView& y, int64_t offset, int64_t n,
           bool accumulate = false);

// Where a kernel may write its result row before store(): y itself where its type is T, else
// scratch.
template <class T>
T* row_target(const TensorView& y, int64_t offset, T* scratch) {
  return y.dtype == dtype_of<T> ? y.as<T>() + offset : scratch;
}

}  // namespace binade::backend::cpu
