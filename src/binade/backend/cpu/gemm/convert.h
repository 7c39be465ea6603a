#pragma once

#include <cstdint>

#include "binade/backend/cpu/gemm/gemm.h"

namespace binade::backend::cpu {

// Widens `count` elements, `stride` apart, into contiguous f32, f64, or the bits of bf16. The
// last takes bf16, e4m3 and e5m2 only, which it holds exactly.
void read_elements(const void* data, Element type, int64_t stride, int64_t count, float* out);
void read_elements(const void* data, Element type, int64_t stride, int64_t count, double* out);
void read_elements(const void* data, Element type, int64_t stride, int64_t count, uint16_t* out);

// Rounds contiguous values to nearest even into elements that are `stride` apart.
void write_elements(const float* in, int64_t count, void* data, Element type, int64_t stride);
void write_elements(const double* in, int64_t count, void* data, Element type, int64_t stride);

}  // namespace binade::backend::cpu
