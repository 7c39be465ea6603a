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

// What one pass over packed operands computes, and how it is cut into tiles.
struct Pass {
  const Problem& problem;
  const Kernel& kernel;
  const PackedOperand& a;
  const PackedOperand& b;
  Range rows, columns;
  int64_t depth;     // of the span; 0 where k is 0
  int64_t kc;        // depth of a K block
  bool first, last;  // of the spans along K
  int64_t tile_rows, tile_columns;
  int64_t strip;  // columns of a tile that are computed, and finished, at a time
  float* sums;    // of all tiles, kept between spans; null where one span is all
  bool own_rows;  // no two tiles share rows of A, so that each packs its own
  bool plain;     // outputs are the sums as they are

  int64_t tiles_across() const { return divide_up(columns.size, tile_columns); }
  int64_t tiles() const { return divide_up(rows.size, tile_rows) * tiles_across(); }
  int64_t blocks() const { return std::max<int64_t>(divide_up(depth, kc), 1); }

  // Whether a strip's sums wait for further K.
  bool keeps_sums() const { return blocks() > 1 || !(first && last); }
  // Whether whole micro-tiles go straight to the output. They add up there if they come along its
  // rows; down its columns, lines far apart would wait for each other.
  bool direct() const { return plain && (kernel.a_in_l1 ? first && last : !keeps_sums()); }
  // Sums of a tile: of all its strips, of one, or of one panel's rows of one.
  int64_t tile_size() const {
    if (keeps_sums()) return tile_rows * round_up(tile_columns, strip);
    return (kernel.a_in_l1 ? kernel.mr : tile_rows) * strip;
  }
};

// Sets the sizes of a pass's tiles and strips. All spans along K get the same ones, as they add to
// the same sums: nothing about them depends on one span's depth.
void choose_tiles(Pass& pass, int64_t workers);

// Computes one of a pass's tiles from operands that are packed.
void compute_tile(const Pass& pass, int64_t index);

}  // namespace binade::backend::cpu
