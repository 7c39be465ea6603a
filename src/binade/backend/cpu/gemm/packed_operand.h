#pragma once

#include <algorithm>
#include <cstdint>

#include "binade/backend/cpu/gemm/kernel.h"
#include "binade/backend/cpu/gemm/pack.h"
#include "binade/backend/cpu/gemm/scratch.h"
#include "binade/base/division.h"

namespace binade::backend::cpu {

// One operand, packed for a span: [K block][panel][depth of the block x rows of a panel].
class PackedOperand {
 public:
  PackedOperand(ScratchBuffer& buffer, const PackSource& source, PanelLayout layout, int64_t kc)
      : buffer_(buffer),
        source_(source),
        layout_(layout),
        row_bytes_(layout.rows * (layout.bf16 ? 2 : 4)),
        kc_(kc) {}

  // Decides what to pack next; false if that is what is packed already.
  bool select_block(int64_t row, int64_t rows, int64_t k, int64_t depth) {
    if (row == row_ && k == k_ && data_ != nullptr) return false;
    aim_in_parts(row, rows, k, depth);
    data_ = buffer_.get<char>(round_up(depth, layout_.step) * panels() * row_bytes_);
    return true;
  }

  // The same for an operand that pack_rows() packs where it is wanted.
  void aim_in_parts(int64_t row, int64_t rows, int64_t k, int64_t depth) {
    row_ = row;
    rows_ = rows;
    k_ = k;
    depth_ = depth;
  }

  // Packing is cut into items that threads share: a few panels of a part of a K block.
  int64_t items() const { return groups() * parts() * divide_up(depth_, kc_); }

  // Their order is that of the source's memory.
  void pack(int64_t item) const {
    const bool along_k = source_.k_stride == 1;
    const int64_t block = item / groups() / parts();
    const int64_t group = along_k ? item / parts() % groups() : item % groups();
    const int64_t part = along_k ? item % parts() : item / groups() % parts();
    const int64_t first = group * group_panels(), k = part * part_depth;
    if (k >= depth(block)) return;
    const int64_t row = first * layout_.rows;
    const int64_t rows = std::min(group_panels() * layout_.rows, rows_ - row);
    pack_part(block, row, rows, k, std::min(part_depth, depth(block) - k), panel(block, first));
  }

  // Packs some rows of a K block, panel after panel.
  void pack_rows(int64_t block, int64_t row, int64_t rows, char* panels) const {
    pack_part(block, row, rows, 0, depth(block), panels);
  }

  char* panel(int64_t block, int64_t index) const {
    return data_ + (block * kc_ * panels() + whole_depth(block) * index) * row_bytes_;
  }

 private:
  static constexpr int64_t part_depth = 128;  // a multiple of every step

  int64_t depth(int64_t block) const { return std::min(kc_, depth_ - block * kc_); }
  int64_t whole_depth(int64_t block) const { return round_up(depth(block), layout_.step); }
  int64_t panels() const { return divide_up(rows_, layout_.rows); }
  int64_t parts() const { return divide_up(kc_, part_depth); }
  // Rows side by side in memory should be read in runs of a few cache lines.
  int64_t group_panels() const {
    return divide_up(source_.row_stride == 1 ? 96 : 32, layout_.rows);
  }
  int64_t groups() const { return divide_up(panels(), group_panels()); }

  void pack_part(int64_t block, int64_t row, int64_t rows, int64_t k, int64_t depth,
                 char* panels) const {
    pack_panels(source_, row_ + row, rows, k_ + block * kc_ + k, depth, layout_,
                panels + k * row_bytes_, whole_depth(block) * row_bytes_);
  }

  ScratchBuffer& buffer_;
  PackSource source_;
  PanelLayout layout_;
  int64_t row_bytes_, kc_;
  int64_t row_ = 0, rows_ = 0, k_ = 0, depth_ = 0;
  char* data_ = nullptr;
};

}  // namespace binade::backend::cpu
