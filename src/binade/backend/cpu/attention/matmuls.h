#pragma once

#include <cstdint>

#include "binade/backend/cpu/attention/softmax.h"
#include "binade/backend/cpu/gemm/kernel.h"
#include "binade/backend/cpu/gemm/pack.h"
#include "binade/base/division.h"
#include "binade/tensor/dtype.h"

// The matmuls of attention's tiles, by gemm's micro-kernels. An operand is packed once and reused
// by every matmul that reads it.
//
// Results are stored in panels as wide as a micro-kernel's: [columns / width][capacity][width],
// where `capacity` is the number of rows that a panel has memory for. An f32 micro-kernel reads a
// right operand in the same layout, so one matmul's result is the next one's operand without a
// copy.
namespace binade::backend::cpu::attention {

// Rows of a matrix, `ld` apart.
struct Tile {
  const void* data;
  DType dtype;
  int64_t ld;

  OperandRows rows() const { return {data, dtype, ld, 1}; }
  OperandRows columns() const { return {data, dtype, 1, ld}; }
};

// Panels of a result, in the operands' type.
struct ResultPanels {
  const void* data;
  DType dtype;
  int64_t capacity;
};

// An operand packed for a micro-kernel, `k` long along the summed axis: a matmul may sum over less.
struct PackedTile {
  const void* data;
  int64_t k;
};

struct Span {
  int64_t begin, end;
};

// The part of a matmul that one panel of its result needs: these rows (others may be overwritten)
// and these k (the right operand holds zeros elsewhere).
struct Part {
  Span rows, k;
};

// Panels that a matmul writes or, with `accumulate`, adds to.
template <class T>
struct PanelOutput {
  T* data;
  int64_t capacity;
  bool accumulate;
};

// Chooses the micro-kernel by the tensors' type: bf16 operands stay bf16 if the CPU multiplies
// them, other types are widened to f32. f64 has a loop of its own instead of a micro-kernel.
class TileMatmuls {
 public:
  explicit TileMatmuls(DType dtype);

  // Columns of a panel.
  int64_t width() const { return nr_; }
  // Rows and columns that a matmul may write for an m x n result: complete micro-tiles.
  int64_t padded_rows(int64_t m) const { return round_up(m, mr_); }
  int64_t padded_columns(int64_t n) const { return round_up(n, nr_); }

  int64_t left_bytes(int64_t rows, int64_t k) const { return panel_bytes(padded_rows(rows), k); }
  int64_t right_bytes(int64_t columns, int64_t k) const {
    return panel_bytes(padded_columns(columns), k);
  }
  PackedTile pack_left(const OperandRows& source, int64_t rows, int64_t k, void* out) const;
  PackedTile pack_right(const OperandRows& source, int64_t columns, int64_t k, void* out) const;

  // Whether operands are bf16, so that a result must be rounded to become one.
  bool rounds() const { return kernel_ != nullptr && kernel_->bf16; }
  // Neighboring k of one column that a packed right operand stores side by side.
  int right_group() const { return kernel_ != nullptr ? kernel_->b_group : 1; }

  // The k that a matmul over `k` reads of a right operand: complete groups.
  Span padded_k(Span k) const { return {round_down(k.begin, group_), round_up(k.end, group_)}; }

  // Of a tile's `keys`, those that some query of a panel sees; earlier ones complete a group of k.
  // Other keys are not read: 0 times NaN would be NaN.
  Span keys_of_panel(const Mask& mask, int64_t panel, int64_t keys) const {
    const int64_t end = mask.keys_seen((panel + 1) * nr_, keys);
    return {round_down(mask.keys_before(panel * nr_, end), group_), end};
  }

  // The right operand whose k are the `columns` of `panels`, and whose columns are their first
  // `rows` (complete panels of them are read). Of panel j, the k in k_of(j) are needed.
  template <class KOf>
  PackedTile transposed(const ResultPanels& panels, int64_t rows, int64_t columns, void* out,
                        KOf k_of) const {
    for (int64_t j = 0; j * nr_ < rows; ++j) transpose_panel(panels, j, k_of(j), columns, out);
    return {out, columns};
  }

  // Multiplies panel by panel; part_of(j) is the part of panel j.
  template <class T, class PartOf>
  void multiply(int64_t columns, PackedTile left, PackedTile right, const PanelOutput<T>& out,
                PartOf part_of) const {
    for_panels(columns, [&](int64_t j) {
      multiply_panel(j, part_of(j), left, right, out.data + j * out.capacity * nr_, out.accumulate);
    });
  }

  // Calls body(j) for the panels of so many columns; it may call multiply_panel().
  template <class Body>
  void for_panels(int64_t columns, Body body) const {
    if (kernel_ != nullptr && kernel_->enter != nullptr) kernel_->enter();
    for (int64_t j = 0; j * nr_ < columns; ++j) body(j);
    if (kernel_ != nullptr && kernel_->leave != nullptr) kernel_->leave();
  }

  // Writes panel j of the result to c, or adds it.
  void multiply_panel(int64_t j, const Part& part, PackedTile left, PackedTile right, float* c,
                      bool accumulate) const;
  void multiply_panel(int64_t j, const Part& part, PackedTile left, PackedTile right, double* c,
                      bool accumulate) const;

 private:
  int64_t panel_bytes(int64_t rows, int64_t k) const {
    return rows * round_up(k, group_) * element_bytes_;
  }
  void pack(const OperandRows& source, int64_t count, int64_t k, int64_t panel_rows, int group,
            void* out) const;
  void transpose_panel(const ResultPanels& panels, int64_t panel, Span needed, int64_t k,
                       void* out) const;

  const Kernel* kernel_;  // null for f64
  int64_t mr_, nr_, group_, element_bytes_;
};

}  // namespace binade::backend::cpu::attention
