#pragma once

#include <cstdint>

#include "binade/backend/cpu/gemm_kernel.h"
#include "binade/backend/cpu/gemm_scratch.h"
#include "binade/tensor/dtype.h"

// The products of attention's tiles, by the micro-kernels of gemm. An operand is packed once and
// multiplied as often as it is met.
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

// A packed operand, and how much of k it holds: a product may sum over less.
struct Operand {
  const void* data;
  int64_t k;
};

// Chooses by the tensors' type: bf16 operands stay what they are where the CPU multiplies them,
// other ones are widened to f32; f64 is a world of its own, without a micro-kernel.
class Products {
 public:
  explicit Products(DType dtype);

  // What multiply() may write of an m x n result: whole micro-tiles.
  int64_t whole_rows(int64_t m) const;
  int64_t whole_columns(int64_t n) const;

  int64_t left_bytes(int64_t rows, int64_t k) const;
  int64_t right_bytes(int64_t columns, int64_t k) const;
  Operand pack_left(const Lines& lines, int64_t rows, int64_t k, void* out) const;
  Operand pack_right(const Lines& lines, int64_t columns, int64_t k, void* out) const;

  // A tile of results as an operand: itself, or rounded to the operands' type into `scratch`.
  Tile as_operand(const float* tile, int64_t rows, int64_t columns, int64_t ld,
                  ScratchBuffer& scratch) const;
  Tile as_operand(const double* tile, int64_t rows, int64_t columns, int64_t ld,
                  ScratchBuffer& scratch) const;

  // c [m, n] = left right, or c += left right; adds 0 to what else is in its micro-tiles.
  void multiply(int64_t m, int64_t n, int64_t k, Operand left, Operand right, float* c, int64_t ldc,
                bool accumulate) const;
  void multiply(int64_t m, int64_t n, int64_t k, Operand left, Operand right, double* c,
                int64_t ldc, bool accumulate) const;

 private:
  const Kernel* kernel_;  // null for f64
};

}  // namespace binade::backend::cpu::attention
