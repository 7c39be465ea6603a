#pragma once

#include <algorithm>
#include <cstdint>

#include "binade/backend/cpu/gemm/packed_operand.h"
#include "binade/backend/cpu/gemm/variants.h"
#include "binade/base/division.h"

namespace binade::backend::cpu {

struct Range {
  int64_t begin, size;
};

// One pass over packed operands, and its division into tiles.
struct Pass {
  const GemmProblem& problem;
  const Kernel& kernel;
  const PackedOperand& a;
  const PackedOperand& b;
  Range rows, columns;
  int64_t depth;     // of the span; 0 if k is 0
  int64_t kc;        // depth of a K block
  bool first, last;  // of the spans along K
  int64_t tile_rows, tile_columns;
  int64_t strip;  // columns of a tile that are computed, and finished, at a time
  float* sums;    // of all tiles, kept between spans; null if there is only one span
  bool own_rows;  // no two tiles share rows of A, so each packs its own
  bool plain;     // outputs are the unchanged sums

  int64_t tiles_across() const { return divide_up(columns.size, tile_columns); }
  int64_t tiles() const { return divide_up(rows.size, tile_rows) * tiles_across(); }
  int64_t blocks() const { return std::max<int64_t>(divide_up(depth, kc), 1); }

  // Whether a strip's sums are kept for a later K block or span.
  bool keeps_sums() const { return blocks() > 1 || !(first && last); }
  // Whether micro-tiles write to the output directly. With a_in_l1 they also accumulate there,
  // along its rows; without, they would walk down its columns, whose lines evict each other.
  bool direct() const { return plain && (kernel.a_in_l1 ? first && last : !keeps_sums()); }
  // Sums stored per tile: of all its strips, of one strip, or of one panel's rows of a strip.
  int64_t tile_size() const {
    if (keeps_sums()) return tile_rows * round_up(tile_columns, strip);
    return (kernel.a_in_l1 ? kernel.mr : tile_rows) * strip;
  }
};

// Sets the sizes of a pass's tiles and strips. They do not depend on a span's depth: all spans
// along K add to the same sums.
void choose_tiles(Pass& pass, int64_t workers);

// Computes one tile of a pass; its operands have been packed.
void compute_tile(const Pass& pass, int64_t index);

}  // namespace binade::backend::cpu
