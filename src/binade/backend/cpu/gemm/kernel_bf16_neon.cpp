#include "binade/backend/cpu/gemm/kernel.h"

#if defined(__aarch64__)
#pragma GCC push_options
#pragma GCC target("arch=armv8.2-a+bf16")
#include <arm_neon.h>

namespace binade::backend::cpu {
namespace {

constexpr int rows = 8;
constexpr int columns = 12;
constexpr int group = 4;

// BFMMLA multiplies a 2 x 4 block of A with the transpose of a 2 x 4 block of B: four sums of a
// 2 x 2 block of C. Each sum adds its four products as two pairs, in order.
//
// 24 sums, 4 vectors of A (v0 to v3) and 4 of B (v4 to v7) fill the registers. A vector is loaded
// as soon as its register is free, well before it is multiplied: instructions that wait for an
// operand fill the queues and delay the loads behind them. Compilers undo that order, hence
// assembly.
#define ZERO(sum) "movi %" #sum ".4s, #0\n"
#define ZERO_6(a, b, c, d, e, f) ZERO(a) ZERO(b) ZERO(c) ZERO(d) ZERO(e) ZERO(f)
#define ADD(sum, a, b) "bfmmla %" #sum ".4s, v" #a ".8h, v" #b ".8h\n"
#define LOAD_A(a, at) "ldr q" #a ", [%[a], #" #at "]\n"
#define LOAD_B(b0, b1, at) "ldp q" #b0 ", q" #b1 ", [%[b], #" #at "]\n"
#define PAIR(s0, s1, a, b0, b1) ADD(s0, a, b0) ADD(s1, a, b1)
#define PAIRS_0(b0, b1) \
  PAIR(0, 1, 0, b0, b1) PAIR(6, 7, 1, b0, b1) PAIR(12, 13, 2, b0, b1) PAIR(18, 19, 3, b0, b1)
#define PAIRS_1(b0, b1) \
  PAIR(2, 3, 0, b0, b1) PAIR(8, 9, 1, b0, b1) PAIR(14, 15, 2, b0, b1) PAIR(20, 21, 3, b0, b1)
#define PAIRS_2(b0, b1, n0, n1, n2, n3)            \
  PAIR(4, 5, 0, b0, b1) n0 PAIR(10, 11, 1, b0, b1) \
  n1 PAIR(16, 17, 2, b0, b1)                       \
  n2 PAIR(22, 23, 3, b0, b1) n3
#define STEP(x0, x1, y0, y1, at1, at2, at3, n0, n1, n2, n3) \
  LOAD_B(y0, y1, at1)                                       \
  PAIRS_0(x0, x1)                                           \
  LOAD_B(x0, x1, at2)                                       \
  PAIRS_1(y0, y1)                                           \
  LOAD_B(y0, y1, at3) PAIRS_2(x0, x1, LOAD_A(0, n0), LOAD_A(1, n1), LOAD_A(2, n2), LOAD_A(3, n3))
#define LAST_STEP(x0, x1, y0, y1, at1, at2) \
  LOAD_B(y0, y1, at1) PAIRS_0(x0, x1) LOAD_B(x0, x1, at2) PAIRS_1(y0, y1) PAIRS_2(x0, x1, , , , )
#define EVEN_STEP STEP(4, 5, 6, 7, 32, 64, 96, 64, 80, 96, 112)
#define ODD_STEP STEP(6, 7, 4, 5, 128, 160, 192, 128, 144, 160, 176)
#define SUMS(row)                                                                 \
  "=&w"(sum[row][0]), "=&w"(sum[row][1]), "=&w"(sum[row][2]), "=&w"(sum[row][3]), \
      "=&w"(sum[row][4]), "=&w"(sum[row][5])

void tile(int64_t k, PanelPair panels, TileSums sums, bool accumulate, const void* /*prefetch*/) {
  const void *a = panels.a, *b = panels.b;
  float* c = sums.data;
  const int64_t ldc = sums.row_stride;
  float32x4_t sum[rows / 2][columns / 2];
  asm(ZERO_6(0, 1, 2, 3, 4, 5) ZERO_6(6, 7, 8, 9, 10, 11) ZERO_6(12, 13, 14, 15, 16, 17)
          ZERO_6(18, 19, 20, 21, 22, 23)
      "cbz %[k], 4f\n"
      "ldp q0, q1, [%[a]]\n"
      "ldp q2, q3, [%[a], #32]\n"
      "ldp q4, q5, [%[b]]\n"
      "subs %[k], %[k], #8\n"
      "b.le 2f\n"
      "1:\n" EVEN_STEP ODD_STEP
      "add %[a], %[a], #128\n"
      "add %[b], %[b], #192\n"
      "subs %[k], %[k], #8\n"
      "b.gt 1b\n"
      "2:\n"
      "b.lt 3f\n" EVEN_STEP LAST_STEP(6, 7, 4, 5, 128, 160)
      "b 4f\n"
      "3:\n" LAST_STEP(4, 5, 6, 7, 32, 64)
      "4:\n"
      : SUMS(0), SUMS(1), SUMS(2), SUMS(3), [k] "+r"(k), [a] "+r"(a), [b] "+r"(b)
      :
      : "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "cc", "memory");
#pragma GCC unroll 4
  for (int i = 0; i < rows / 2; ++i) {
#pragma GCC unroll 3
    for (int j = 0; j < columns / 2; j += 2) {
      float* top = c + 2 * j;
      float* bottom = top + ldc;
      const float64x2_t left = vreinterpretq_f64_f32(sum[i][j]);
      const float64x2_t right = vreinterpretq_f64_f32(sum[i][j + 1]);
      const float32x4_t upper = vreinterpretq_f32_f64(vzip1q_f64(left, right));
      const float32x4_t lower = vreinterpretq_f32_f64(vzip2q_f64(left, right));
      vst1q_f32(top, accumulate ? vaddq_f32(vld1q_f32(top), upper) : upper);
      vst1q_f32(bottom, accumulate ? vaddq_f32(vld1q_f32(bottom), lower) : lower);
    }
    c += 2 * ldc;
  }
}

// The second row of A, which BFMMLA multiplies as well, repeats the first.
void row(int64_t k, PanelPair panels, float* sums, bool accumulate) {
  const auto* a = static_cast<const bfloat16_t*>(panels.a);
  const auto* b = static_cast<const bfloat16_t*>(panels.b);
  float32x4_t sum[columns / 2] = {};
  for (int64_t p = 0; p < k; p += group, b += columns * group) {
    const bfloat16x4_t once = vld1_bf16(a + p);
    const bfloat16x8_t twice = vcombine_bf16(once, once);
#pragma GCC unroll 6
    for (int j = 0; j < columns / 2; ++j)
      sum[j] = vbfmmlaq_f32(sum[j], twice, vld1q_bf16(b + 2 * group * j));
  }
#pragma GCC unroll 3
  for (int j = 0; j < columns / 2; j += 2) {
    float* out = sums + 2 * j;
    const float32x4_t four = vcombine_f32(vget_low_f32(sum[j]), vget_low_f32(sum[j + 1]));
    vst1q_f32(out, accumulate ? vaddq_f32(vld1q_f32(out), four) : four);
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
                              .strip = 1032,
                              .tile = tile,
                              .row = row};

}  // namespace binade::backend::cpu
#pragma GCC pop_options
#endif
