#pragma once

#include <algorithm>
#include <cstdint>

#include "binade/backend/cpu/gemm/kernel.h"
#include "binade/backend/cpu/gemm/pack.h"
#include "binade/backend/cpu/gemm/scratch.h"
#include "binade/base/division.h"

namespace binade::backend::cpu {

// One operand, packed for one span: [K block][panel][depth of the block x rows of a panel].
class PackedOperand {
 public:
  PackedOperand(ScratchBuffer& buffer, const OperandRows& source, const PanelLayout& layout,
                int64_t kc)
      : buffer_(buffer),
        source_(source),
        layout_(layout),
        row_bytes_(layout.rows * (layout.bf16 ? 2 : 4)),
        kc_(kc) {}

  // Selects the block to pack next; false if it is packed already.
  bool select_block(const OperandBlock& block) {
    if (block.row == block_.row && block.k == block_.k && data_ != nullptr) return false;
    select_unpacked_block(block);
    data_ = buffer_.get<char>(round_up(block.depth, layout_.step) * panels() * row_bytes_);
    return true;
  }

  // Selects a block that pack_rows() packs in parts, on demand.
  void select_unpacked_block(const OperandBlock& block) { block_ = block; }

  // Work items of packing, for threads: a few panels of a part of a K block each.
  int64_t items() const { return groups() * parts() * divide_up(block_.depth, kc_); }

  // Packs one item. Items follow the order of the source's memory.
  void pack(int64_t item) const {
    const bool along_k = source_.k_stride == 1;
    const int64_t block = item / groups() / parts();
    const int64_t group = along_k ? item / parts() % groups() : item % groups();
    const int64_t part = along_k ? item % parts() : item / groups() % parts();
    const int64_t first = group * group_panels(), k = part * part_depth;
    if (k >= depth(block)) return;
    const int64_t row = first * layout_.rows;
    const int64_t rows = std::min(group_panels() * layout_.rows, block_.rows - row);
    pack_part(block, {row, rows, k, std::min(part_depth, depth(block) - k)}, panel(block, first));
  }

  // Packs some rows of a K block, panel after panel.
  void pack_rows(int64_t block, int64_t row, int64_t rows, char* panels) const {
    pack_part(block, {row, rows, 0, depth(block)}, panels);
  }

  char* panel(int64_t block, int64_t index) const {
    return data_ + (block * kc_ * panels() + padded_depth(block) * index) * row_bytes_;
  }

 private:
  // A multiple of every layout's step. Small enough that items balance over threads.
  static constexpr int64_t part_depth = 128;

  int64_t depth(int64_t block) const { return std::min(kc_, block_.depth - block * kc_); }
  int64_t padded_depth(int64_t block) const { return round_up(depth(block), layout_.step); }
  int64_t panels() const { return divide_up(block_.rows, layout_.rows); }
  int64_t parts() const { return divide_up(kc_, part_depth); }
  // Rows that are contiguous in memory are read in runs of a few cache lines: 96 elements.
  int64_t group_panels() const {
    return divide_up(source_.row_stride == 1 ? 96 : 32, layout_.rows);
  }
  int64_t groups() const { return divide_up(panels(), group_panels()); }

  // Packs a part of a K block; row and k count from the block's first.
  void pack_part(int64_t block, const OperandBlock& part, char* panels) const {
    const OperandBlock source{block_.row + part.row, part.rows, block_.k + block * kc_ + part.k,
                              part.depth};
    pack_panels(source_, source, layout_,
                {panels + part.k * row_bytes_, padded_depth(block) * row_bytes_});
  }

  ScratchBuffer& buffer_;
  OperandRows source_;
  PanelLayout layout_;
  int64_t row_bytes_, kc_;
  OperandBlock block_ = {};
  char* data_ = nullptr;
};

}  // namespace binade::backend::cpu
