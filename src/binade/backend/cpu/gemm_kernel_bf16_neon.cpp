#include "binade/backend/cpu/gemm_kernel.h"

#if defined(__aarch64__)
#pragma GCC push_options
#pragma GCC target("arch=armv8.2-a+bf16")
// 24 sums, 4 vectors of A and 4 of B fill the registers, if the loop stays in the order written.
#pragma GCC optimize("no-schedule-insns", "no-schedule-insns2")
#include <arm_neon.h>

namespace binade::backend::cpu {
namespace {

constexpr int rows = 8;
constexpr int columns = 12;
constexpr int group = 4;

// BFMMLA multiplies a 2 x 4 block of A with the transpose of a 2 x 4 block of B: four sums of a
// 2 x 2 block of C. Each sum takes its four products as two pairs, in order.
void tile(int64_t k, const void* a_panel, const void* b_panel, float* c, int64_t ldc,
          bool accumulate) {
  const bfloat16_t* a = static_cast<const bfloat16_t*>(a_panel);
  const bfloat16_t* b = static_cast<const bfloat16_t*>(b_panel);
  float32x4_t sum[rows / 2][columns / 2];
#pragma GCC unroll 4
  for (int i = 0; i < rows / 2; ++i) {
#pragma GCC unroll 6
    for (int j = 0; j < columns / 2; ++j) sum[i][j] = vdupq_n_f32(0);
  }
#pragma GCC unroll 4
  for (int64_t p = 0; p < k; p += group, a += rows * group, b += columns * group) {
    const bfloat16x8_t a0 = vld1q_bf16(a), a1 = vld1q_bf16(a + 8), a2 = vld1q_bf16(a + 16),
                       a3 = vld1q_bf16(a + 24);
#pragma GCC unroll 6
    for (int j = 0; j < columns / 2; ++j) {
      const bfloat16x8_t bv = vld1q_bf16(b + 8 * j);
      sum[0][j] = vbfmmlaq_f32(sum[0][j], a0, bv);
      sum[1][j] = vbfmmlaq_f32(sum[1][j], a1, bv);
      sum[2][j] = vbfmmlaq_f32(sum[2][j], a2, bv);
      sum[3][j] = vbfmmlaq_f32(sum[3][j], a3, bv);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < rows / 2; ++i) {
#pragma GCC unroll 3
    for (int j = 0; j < columns / 2; j += 2) {
      float* top = c + 2 * i * ldc + 2 * j;
      float* bottom = top + ldc;
      const float64x2_t left = vreinterpretq_f64_f32(sum[i][j]);
      const float64x2_t right = vreinterpretq_f64_f32(sum[i][j + 1]);
      const float32x4_t t = vreinterpretq_f32_f64(vzip1q_f64(left, right));
      const float32x4_t u = vreinterpretq_f32_f64(vzip2q_f64(left, right));
      vst1q_f32(top, accumulate ? vaddq_f32(vld1q_f32(top), t) : t);
      vst1q_f32(bottom, accumulate ? vaddq_f32(vld1q_f32(bottom), u) : u);
    }
  }
}

}  // namespace

const Kernel neon_bf16_kernel{.name = "neon-bf16",
                              .bf16 = true,
                              .mr = rows,
                              .nr = columns,
                              .a_group = group,
                              .b_group = group,
                              .kc = 1024,
                              .tile = tile};

}  // namespace binade::backend::cpu
#pragma GCC pop_options
#endif
