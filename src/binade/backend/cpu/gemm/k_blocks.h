#pragma once

#include <algorithm>
#include <cstdint>

#include "binade/backend/cpu/gemm/kernel.h"
#include "binade/base/division.h"

namespace binade::backend::cpu {

// How a sum over k is divided: into spans, which are packed at a time, and those into blocks, which
// are summed in registers. Rounding depends only on this, and this only on k and the kernel: the
// bits of an output do not depend on the other rows and columns, nor on the number of threads.
class KBlocks {
 public:
  static constexpr int64_t span = 16384;  // a multiple of every kernel's kc

  KBlocks(int64_t k, const Kernel& kernel)
      : k_(k),
        depth_(round_up(divide_up(span_depth(), divide_up(span_depth(), kernel.kc)),
                        kernel.group())) {}

  int64_t spans() const { return std::max<int64_t>(divide_up(k_, span), 1); }
  int64_t span_depth() const { return std::clamp<int64_t>(k_, 1, span); }  // of the largest span
  int64_t depth() const { return depth_; }                                 // of the largest block

  // Calls action(k, depth) for all blocks in order; once with depth 0 if k is 0. Blocks of a span
  // are followed by those of the next: all but the last have the same depth.
  template <class Action>
  void for_each(Action action) const {
    if (k_ == 0) return action(int64_t{0}, int64_t{0});
    for (int64_t k = 0; k < k_; k += depth_) action(k, std::min(depth_, k_ - k));
  }

 private:
  int64_t k_, depth_;
};

}  // namespace binade::backend::cpu
