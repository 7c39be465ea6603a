#include "binade/backend/cpu/gemm/kernel.h"

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx512f")
#include <immintrin.h>

namespace binade::backend::cpu {
namespace {

constexpr int rows = 14;
constexpr int columns = 32;

// B is prefetched 32 steps ahead, from the L2 cache to the L1 cache.
constexpr int ahead = 32 * columns;

void prefetch_row(float* c) {
  __builtin_prefetch(c, 1);
  __builtin_prefetch(c + 16, 1);
}

// 28 sums, 2 vectors of B and a broadcast element of A use 31 of the 32 registers.
void tile(int64_t k, PanelPair panels, TileSums sums, bool accumulate, const void* /*prefetch*/) {
  const auto* a = static_cast<const float*>(panels.a);
  const auto* b = static_cast<const float*>(panels.b);
  float* const c = sums.data;
  const int64_t ldc = sums.row_stride;
  __m512 left[rows], right[rows];
#pragma GCC unroll 14
  for (int i = 0; i < rows; ++i) left[i] = right[i] = _mm512_setzero_ps();
  for (int64_t p = 0; p < k; ++p, a += rows, b += columns) {
    if (p < rows) prefetch_row(c + p * ldc);
    __builtin_prefetch(b + ahead);
    __builtin_prefetch(b + ahead + 16);
    const __m512 b0 = _mm512_loadu_ps(b), b1 = _mm512_loadu_ps(b + 16);
#pragma GCC unroll 14
    for (int i = 0; i < rows; ++i) {
      const __m512 av = _mm512_set1_ps(a[i]);
      left[i] = _mm512_fmadd_ps(av, b0, left[i]);
      right[i] = _mm512_fmadd_ps(av, b1, right[i]);
    }
  }
#pragma GCC unroll 14
  for (int i = 0; i < rows; ++i) {
    float* out = c + i * ldc;
    if (accumulate) {
      left[i] = _mm512_add_ps(_mm512_loadu_ps(out), left[i]);
      right[i] = _mm512_add_ps(_mm512_loadu_ps(out + 16), right[i]);
    }
    _mm512_storeu_ps(out, left[i]);
    _mm512_storeu_ps(out + 16, right[i]);
  }
}

}  // namespace

const Kernel avx512_kernel{.name = "avx512",
                           .bf16 = false,
                           .mr = rows,
                           .nr = columns,
                           .a_group = 1,
                           .b_group = 1,
                           .kc = 512,
                           .strip = 256,
                           .columns = 2048,
                           .a_in_l1 = true,
                           .tile = tile};

}  // namespace binade::backend::cpu
#pragma GCC pop_options
#endif
