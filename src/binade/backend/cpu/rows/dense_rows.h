#pragma once

#include <cstdint>
#include <string_view>

#include "binade/backend/target.h"

// Access to dense data, a run of elements at a time, as float (double for f64): a kernel is written
// once for all types of its tensors.
namespace binade::backend::cpu {

// Calls f with TypeTag<double> for f64 and TypeTag<float> for f32, f16 and bf16.
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

// Elements [offset, offset + n) of dense x as T: points into x if its type is T, else converts them
// into scratch, which holds n.
const float* load(const TensorView& x, int64_t offset, int64_t n, float* scratch);
const double* load(const TensorView& x, int64_t offset, int64_t n, double* scratch);

// Writes n values to dense y from `offset`, rounded once as backend/cast.h has it; adds to the
// elements there if `accumulate`.
void store(const float* values, const TensorView& y, int64_t offset, int64_t n,
           bool accumulate = false);
void store(const double* values, const TensorView& y, int64_t offset, int64_t n,
           bool accumulate = false);
template <class T>
void store(const T* values, const Target& y, int64_t offset, int64_t n) {
  store(values, y.view, offset, n, y.accumulate);
}

// The memory in which a kernel computes a row before store(): y itself if its type is T and it is
// overwritten, else scratch.
template <class T>
T* row_target(const TensorView& y, int64_t offset, T* scratch) {
  return y.dtype == dtype_of<T> ? y.as<T>() + offset : scratch;
}
template <class T>
T* row_target(const Target& y, int64_t offset, T* scratch) {
  return y.accumulate ? scratch : row_target(y.view, offset, scratch);
}

}  // namespace binade::backend::cpu
