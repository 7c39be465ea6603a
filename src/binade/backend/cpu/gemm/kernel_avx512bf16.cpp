#include "binade/backend/cpu/gemm/kernel.h"

#if defined(__x86_64__)
#include <cstring>
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512bf16")
#include <immintrin.h>

namespace binade::backend::cpu {
namespace {

constexpr int rows = 14;
constexpr int columns = 32;
constexpr int group = 2;

__m512bh load(const uint16_t* p) { return (__m512bh)_mm512_loadu_si512(p); }

// Two adjacent k of one row, in every lane.
__m512bh broadcast_pair(const uint16_t* p) {
  int pair;
  std::memcpy(&pair, p, sizeof pair);
  return (__m512bh)_mm512_set1_epi32(pair);
}

// B is prefetched 32 steps ahead, from the L2 cache to the L1 cache.
constexpr int ahead = 32 * columns * group;

void prefetch_row(float* c) {
  __builtin_prefetch(c, 1);
  __builtin_prefetch(c + 16, 1);
}

// VDPBF16PS adds the products of two adjacent k to each sum, the odd one first.
void tile(int64_t k, PanelPair panels, TileSums sums, bool accumulate, const void* /*prefetch*/) {
  const auto* a = static_cast<const uint16_t*>(panels.a);
  const auto* b = static_cast<const uint16_t*>(panels.b);
  float* const c = sums.data;
  const int64_t ldc = sums.row_stride;
  __m512 left[rows], right[rows];
#pragma GCC unroll 14
  for (int i = 0; i < rows; ++i) left[i] = right[i] = _mm512_setzero_ps();
  for (int64_t p = 0; p < k; p += group, a += rows * group, b += columns * group) {
    if (p < group * rows) prefetch_row(c + p / group * ldc);
    __builtin_prefetch(b + ahead);
    __builtin_prefetch(b + ahead + 32);
    const __m512bh b0 = load(b), b1 = load(b + 32);
#pragma GCC unroll 14
    for (int i = 0; i < rows; ++i) {
      const __m512bh av = broadcast_pair(a + i * group);
      left[i] = _mm512_dpbf16_ps(left[i], av, b0);
      right[i] = _mm512_dpbf16_ps(right[i], av, b1);
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

void row(int64_t k, PanelPair panels, float* sums, bool accumulate) {
  const auto* a = static_cast<const uint16_t*>(panels.a);
  const auto* b = static_cast<const uint16_t*>(panels.b);
  __m512 left = _mm512_setzero_ps(), right = left;
  for (int64_t p = 0; p < k; p += group, b += columns * group) {
    const __m512bh av = broadcast_pair(a + p);
    left = _mm512_dpbf16_ps(left, av, load(b));
    right = _mm512_dpbf16_ps(right, av, load(b + 32));
  }
  if (accumulate) {
    left = _mm512_add_ps(_mm512_loadu_ps(sums), left);
    right = _mm512_add_ps(_mm512_loadu_ps(sums + 16), right);
  }
  _mm512_storeu_ps(sums, left);
  _mm512_storeu_ps(sums + 16, right);
}

}  // namespace

const Kernel avx512_bf16_kernel{.name = "avx512-bf16",
                                .bf16 = true,
                                .mr = rows,
                                .nr = columns,
                                .a_group = group,
                                .b_group = group,
                                .kc = 512,
                                .strip = 256,
                                .columns = 2048,
                                .a_in_l1 = true,
                                .tile = tile,
                                .row = row};

}  // namespace binade::backend::cpu
#pragma GCC pop_options
#endif
