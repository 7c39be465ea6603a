#pragma once

#include <cstdint>

#include "binade/backend/cpu/gemm/kernel.h"
#include "binade/backend/cpu/gemm/scratch.h"
#include "binade/tensor/dtype.h"

// The products of attention's tiles, by the micro-kernels of gemm. An operand is packed once and
// multiplied as often as it is met.
//
// Results lie in panels of as many columns as a micro-kernel's: [columns / width][room][width],
// where `room` says how many rows a panel has room for. That is how an f32 micro-kernel reads a
// right operand, so one product's result is the next one's operand as it lies.
namespace binade::backend::cpu::attention {

// A matrix as packing reads it. Its lines are the rows of a left operand or the columns of a right
// one; products sum over k.
struct Lines {
  const void* data;
  DType dtype;
  int64_t line_stride, k_stride;
};

// Rows of a matrix, `ld` apart.
struct Tile {
  const void* data;
  DType dtype;
  int64_t ld;

  Lines rows() const { return {data, dtype, ld, 1}; }
  Lines columns() const { return {data, dtype, 1, ld}; }
};

// Results in panels, in the operands' type.
struct Panels {
  const void* data;
  DType dtype;
  int64_t room;
};

// A packed operand, and how much of k it holds: a product may sum over less.
struct Operand {
  const void* data;
  int64_t k;
};

struct Span {
  int64_t begin, end;
};

// What a product takes to make one panel of its result: the rows that are wanted (others may be
// overwritten) and the k that count (others must be zeros of the right operand).
struct Part {
  Span rows, k;
};

// Chooses by the tensors' type: bf16 operands stay what they are where the CPU multiplies them,
// other ones are widened to f32; f64 is a world of its own, without a micro-kernel.
class Products {
 public:
  explicit Products(DType dtype);

  // Columns of a panel.
  int64_t width() const { return nr_; }
  int64_t panels(int64_t columns) const { return (columns + nr_ - 1) / nr_; }
  // What multiply() may write of an m x n result: whole micro-tiles.
  int64_t whole_rows(int64_t m) const;
  int64_t whole_columns(int64_t n) const { return panels(n) * nr_; }

  int64_t left_bytes(int64_t rows, int64_t k) const;
  int64_t right_bytes(int64_t columns, int64_t k) const;
  Operand pack_left(const Lines& lines, int64_t rows, int64_t k, void* out) const;
  Operand pack_right(const Lines& lines, int64_t columns, int64_t k, void* out) const;

  // Whether operands are bf16, so that a result is rounded before it is one; and how many k of a
  // right operand then lie side by side.
  bool rounds() const { return kernel_ != nullptr && kernel_->bf16; }
  int right_group() const { return kernel_ != nullptr ? kernel_->b_group : 1; }

  // What multiply() reads of a right operand for the sake of k: whole groups.
  Span whole_groups(Span k) const;

  // The right operand whose k are the `columns` of `panels`, and whose columns are their first
  // `rows` (a whole panel of them is read). Of panel j, k before k_end_of(j) are there.
  template <class KEndOf>
  Operand transposed(const Panels& panels, int64_t rows, int64_t columns, void* out,
                     KEndOf k_end_of) const {
    for (int64_t j = 0; j * nr_ < rows; ++j) transpose_panel(panels, j, k_end_of(j), columns, out);
    return {out, columns};
  }

  // c = left right, or c += left right, panel by panel: part_of(j) says what of panel j.
  template <class T, class PartOf>
  void multiply(int64_t columns, Operand left, Operand right, T* c, int64_t room, bool accumulate,
                PartOf part_of) const {
    for_panels(columns, [&](int64_t j) {
      multiply_panel(j, part_of(j), left, right, c + j * room * nr_, accumulate);
    });
  }

  // Calls body(j) for the panels of so many columns; it may call multiply_panel().
  template <class Body>
  void for_panels(int64_t columns, Body body) const {
    if (kernel_ != nullptr && kernel_->enter != nullptr) kernel_->enter();
    for (int64_t j = 0; j * nr_ < columns; ++j) body(j);
    if (kernel_ != nullptr && kernel_->leave != nullptr) kernel_->leave();
  }

  // Panel j of the result into c, or added to it.
  void multiply_panel(int64_t j, const Part& part, Operand left, Operand right, float* c,
                      bool accumulate) const;
  void multiply_panel(int64_t j, const Part& part, Operand left, Operand right, double* c,
                      bool accumulate) const;

 private:
  int64_t panel_bytes(int64_t lines, int64_t k) const;
  void pack(const Lines& lines, int64_t count, int64_t k, int64_t panel_lines, int group,
            void* out) const;
  void transpose_panel(const Panels& panels, int64_t panel, int64_t k_end, int64_t k,
                       void* out) const;

  const Kernel* kernel_;  // null for f64
  int64_t mr_, nr_, group_, element_bytes_;
};

}  // namespace binade::backend::cpu::attention
