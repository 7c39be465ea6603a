#include "binade/backend/cpu/gemm/kernel.h"

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#include <immintrin.h>

namespace binade::backend::cpu {
namespace {

constexpr int rows = 6;
constexpr int columns = 16;

// 12 sums, 2 vectors of B and a broadcast element of A use 15 of the 16 registers.
void tile(int64_t k, PanelPair panels, TileSums sums, bool accumulate, const void* /*prefetch*/) {
  const auto* a = static_cast<const float*>(panels.a);
  const auto* b = static_cast<const float*>(panels.b);
  float* const c = sums.data;
  const int64_t ldc = sums.row_stride;
  __m256 left[rows], right[rows];
#pragma GCC unroll 6
  for (int i = 0; i < rows; ++i) left[i] = right[i] = _mm256_setzero_ps();
  for (int64_t p = 0; p < k; ++p, a += rows, b += columns) {
    const __m256 b0 = _mm256_loadu_ps(b), b1 = _mm256_loadu_ps(b + 8);
#pragma GCC unroll 6
    for (int i = 0; i < rows; ++i) {
      const __m256 av = _mm256_broadcast_ss(a + i);
      left[i] = _mm256_fmadd_ps(av, b0, left[i]);
      right[i] = _mm256_fmadd_ps(av, b1, right[i]);
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < rows; ++i) {
    float* out = c + i * ldc;
    if (accumulate) {
      left[i] = _mm256_add_ps(_mm256_loadu_ps(out), left[i]);
      right[i] = _mm256_add_ps(_mm256_loadu_ps(out + 8), right[i]);
    }
    _mm256_storeu_ps(out, left[i]);
    _mm256_storeu_ps(out + 8, right[i]);
  }
}

}  // namespace

const Kernel avx2_kernel{.name = "avx2",
                         .bf16 = false,
                         .mr = rows,
                         .nr = columns,
                         .a_group = 1,
                         .b_group = 1,
                         .kc = 256,
                         .strip = 384,
                         .tile = tile};

}  // namespace binade::backend::cpu
#pragma GCC pop_options
#endif
