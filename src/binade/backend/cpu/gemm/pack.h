#pragma once

#include <cstdint>

#include "binade/backend/cpu/gemm/gemm.h"

namespace binade::backend::cpu {

// How a kernel wants a panel: [depth / group][rows][group] elements of f32 or bf16, up to a whole
// multiple of `step` in depth, which `group` divides.
struct PanelLayout {
  bool bf16;
  int rows;
  int group;
  int step;
};

// A matrix as packing sees it. Panels are cut along `row`, be those the rows of A or the columns of
// B.
struct PackSource {
  const void* data;
  Element type;
  int64_t row_stride, k_stride;
  bool round_tf32;
};

// Packs rows [row, row + rows) and depth [k, k + depth) of `source` into panels that lie
// panel_bytes apart, converting each element on the way. Rows missing in the last panel, and k up
// to a whole step, become zeros. bf16 panels take bf16, e4m3 and e5m2 sources only, which bf16
// holds exactly.
void pack_panels(const PackSource& source, int64_t row, int64_t rows, int64_t k, int64_t depth,
                 PanelLayout layout, void* panels, int64_t panel_bytes);

}  // namespace binade::backend::cpu
