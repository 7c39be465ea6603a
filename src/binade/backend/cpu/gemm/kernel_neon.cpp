#include "binade/backend/cpu/gemm/kernel.h"

#if defined(__aarch64__)
#pragma GCC push_options
// In this order the loop runs at the FMA units' speed; the compiler's scheduling spills registers.
#pragma GCC optimize("no-schedule-insns", "no-schedule-insns2")
#include <arm_neon.h>

namespace binade::backend::cpu {
namespace {

constexpr int rows = 8;
constexpr int columns = 12;
constexpr int vectors = columns / 4;

// 24 sums, 3 vectors of B and 2 of A use 29 of the 32 registers. The loops over them must be
// unrolled before the compiler decides what stays in registers, hence the pragmas.
void tile(int64_t k, PanelPair panels, TileSums sums, bool accumulate, const void* /*prefetch*/) {
  const auto* a = static_cast<const float*>(panels.a);
  const auto* b = static_cast<const float*>(panels.b);
  float* const c = sums.data;
  const int64_t ldc = sums.row_stride;
  float32x4_t sum[rows][vectors];
#pragma GCC unroll 8
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 3
    for (int j = 0; j < vectors; ++j) sum[i][j] = vdupq_n_f32(0);
  }
#pragma GCC unroll 4
  for (int64_t p = 0; p < k; ++p, a += rows, b += columns) {
    const float32x4_t b0 = vld1q_f32(b), b1 = vld1q_f32(b + 4), b2 = vld1q_f32(b + 8);
#pragma GCC unroll 2
    for (int i = 0; i < rows; i += 4) {
      const float32x4_t av = vld1q_f32(a + i);
      sum[i][0] = vfmaq_laneq_f32(sum[i][0], b0, av, 0);
      sum[i][1] = vfmaq_laneq_f32(sum[i][1], b1, av, 0);
      sum[i][2] = vfmaq_laneq_f32(sum[i][2], b2, av, 0);
      sum[i + 1][0] = vfmaq_laneq_f32(sum[i + 1][0], b0, av, 1);
      sum[i + 1][1] = vfmaq_laneq_f32(sum[i + 1][1], b1, av, 1);
      sum[i + 1][2] = vfmaq_laneq_f32(sum[i + 1][2], b2, av, 1);
      sum[i + 2][0] = vfmaq_laneq_f32(sum[i + 2][0], b0, av, 2);
      sum[i + 2][1] = vfmaq_laneq_f32(sum[i + 2][1], b1, av, 2);
      sum[i + 2][2] = vfmaq_laneq_f32(sum[i + 2][2], b2, av, 2);
      sum[i + 3][0] = vfmaq_laneq_f32(sum[i + 3][0], b0, av, 3);
      sum[i + 3][1] = vfmaq_laneq_f32(sum[i + 3][1], b1, av, 3);
      sum[i + 3][2] = vfmaq_laneq_f32(sum[i + 3][2], b2, av, 3);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 3
    for (int j = 0; j < vectors; ++j) {
      float* out = c + i * ldc + 4 * j;
      vst1q_f32(out, accumulate ? vaddq_f32(vld1q_f32(out), sum[i][j]) : sum[i][j]);
    }
  }
}

}  // namespace

const Kernel neon_kernel{.name = "neon",
                         .bf16 = false,
                         .mr = rows,
                         .nr = columns,
                         .a_group = 1,
                         .b_group = 1,
                         .kc = 512,
                         .strip = 1032,
                         .tile = tile};

}  // namespace binade::backend::cpu
#pragma GCC pop_options
#endif
