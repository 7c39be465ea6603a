#pragma once

#include <cstdint>

#include "binade/tensor/dtype.h"

namespace binade::backend::cpu {

// The panel that a kernel reads: [depth / group][rows][group] elements of f32 or bf16, padded in
// depth to a multiple of `step`, which `group` divides.
struct PanelLayout {
  bool bf16;
  int rows;
  int group;
  int step;
};

// An operand along its summed axis k: its rows are the rows of A or the columns of B.
struct OperandRows {
  const void* data;
  DType dtype;
  int64_t row_stride, k_stride;
  bool tf32 = false;  // round f32 elements to TF32

  const char* at(int64_t row, int64_t k) const {
    return static_cast<const char*>(data) +
           (row * row_stride + k * k_stride) * static_cast<int64_t>(size_of(dtype));
  }
};

// Rows [row, row + rows) and depth [k, k + depth) of an operand.
struct OperandBlock {
  int64_t row, rows;
  int64_t k, depth;
};

// Memory for panels, `stride` bytes apart.
struct PanelMemory {
  void* data;
  int64_t stride;
};

// Packs a block of `source` into panels, converting each element on the way. Missing rows of the
// last panel, and k up to a multiple of the layout's step, become zeros. bf16 panels accept only
// sources that bf16 holds exactly: bf16, e4m3 and e5m2.
void pack_panels(const OperandRows& source, const OperandBlock& block, const PanelLayout& layout,
                 const PanelMemory& panels);

}  // namespace binade::backend::cpu
