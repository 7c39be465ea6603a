#pragma once

#include <cstdint>

#include "binade/tensor/dtype.h"

namespace binade::backend::cpu {

// Widens `count` elements, `stride` apart, into contiguous f32, f64, or the bits of bf16. The last
// accepts only types that bf16 holds exactly: bf16, e4m3 and e5m2.
void read_elements(const void* data, DType dtype, int64_t stride, int64_t count, float* out);
void read_elements(const void* data, DType dtype, int64_t stride, int64_t count, double* out);
void read_elements(const void* data, DType dtype, int64_t stride, int64_t count, uint16_t* out);

// Rounds contiguous values to nearest even and writes them `stride` elements apart.
void write_elements(const float* in, int64_t count, void* data, DType dtype, int64_t stride);
void write_elements(const double* in, int64_t count, void* data, DType dtype, int64_t stride);

}  // namespace binade::backend::cpu
