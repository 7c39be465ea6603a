#include "binade/backend/cpu/gemm/kernel.h"

#if defined(__x86_64__)
#include <algorithm>
#pragma GCC push_options
#pragma GCC target("amx-tile,amx-bf16")
#include <immintrin.h>

namespace binade::backend::cpu {
namespace {

constexpr int rows = 32;
constexpr int columns = 32;
constexpr int depth = 32;                     // k of one tile multiplication
constexpr int64_t a_row_bytes = depth * 2;    // a panel of A is [k / 32][32 rows][32 k]
constexpr int64_t b_row_bytes = columns * 4;  // a panel of B is [k / 2][32 columns][2 k]

// All eight tile registers: 16 rows of 64 bytes.
struct alignas(64) Configuration {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t tile_rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(Configuration) == 64);

void enter() {
  static constexpr Configuration configuration;
  _tile_loadconfig(&configuration);
}

void leave() { _tile_release(); }

// Prefetches one cache line: several at once would delay the loads of tiles.
void fetch(const char* line) { __builtin_prefetch(line, 0, 2); }

// 2 x 2 tiles of C in registers 0 to 3, a column of A in 4 and 5, a row of B in 6 and 7. Each
// register is loaded again right after its last use, so that it is ready for its next one.
void multiply(int64_t k, const char* a, const char* b, const char* prefetch) {
  constexpr int64_t step = depth / 2 * b_row_bytes;
  static_assert(step == 256 * Kernel::prefetch_divisor);
  _tile_loadd(4, a, a_row_bytes);
  _tile_loadd(6, b, b_row_bytes);
  _tile_loadd(7, b + 64, b_row_bytes);
  _tile_loadd(5, a + 16 * a_row_bytes, a_row_bytes);
  for (int64_t p = depth; p < k; p += depth) {
    a += rows * a_row_bytes;
    b += step;
    _tile_dpbf16ps(0, 4, 6);
    fetch(prefetch);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(4, a, a_row_bytes);
    fetch(prefetch + 64);
    _tile_dpbf16ps(2, 5, 6);
    _tile_loadd(6, b, b_row_bytes);
    fetch(prefetch + 128);
    _tile_dpbf16ps(3, 5, 7);
    _tile_loadd(7, b + 64, b_row_bytes);
    _tile_loadd(5, a + 16 * a_row_bytes, a_row_bytes);
    fetch(prefetch + 192);
    prefetch += 256;
  }
  _tile_dpbf16ps(0, 4, 6);
  _tile_dpbf16ps(1, 4, 7);
  _tile_dpbf16ps(2, 5, 6);
  _tile_dpbf16ps(3, 5, 7);
}

void tile(int64_t k, PanelPair panels, TileSums sums, bool accumulate, const void* prefetch) {
  const int64_t c_row_bytes = sums.row_stride * 4;
  float *const c = sums.data, *const c_low = c + 16 * sums.row_stride;
  if (accumulate) {
    _tile_loadd(0, c, c_row_bytes);
    _tile_loadd(1, c + 16, c_row_bytes);
    _tile_loadd(2, c_low, c_row_bytes);
    _tile_loadd(3, c_low + 16, c_row_bytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  if (k > 0) {
    multiply(k, static_cast<const char*>(panels.a), static_cast<const char*>(panels.b),
             static_cast<const char*>(prefetch));
  }
  _tile_stored(0, c, c_row_bytes);
  _tile_stored(1, c + 16, c_row_bytes);
  _tile_stored(2, c_low, c_row_bytes);
  _tile_stored(3, c_low + 16, c_row_bytes);
}

// Tiles of A whose 16 rows are the same one: rows that are loaded 0 bytes apart.
void row(int64_t k, PanelPair panels, float* sums, bool accumulate) {
  const auto* a = static_cast<const char*>(panels.a);
  const auto* b = static_cast<const char*>(panels.b);
  if (accumulate) {
    _tile_loadd(0, sums, 0);
    _tile_loadd(1, sums + 16, 0);
  } else {
    _tile_zero(0);
    _tile_zero(1);
  }
  for (int64_t p = 0; p < k; p += depth, a += a_row_bytes, b += depth / 2 * b_row_bytes) {
    _tile_loadd(4, a, 0);
    _tile_loadd(6, b, b_row_bytes);
    _tile_loadd(7, b + 64, b_row_bytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
  }
  alignas(64) float equal_rows[16 * columns];
  _tile_stored(0, equal_rows, columns * sizeof(float));
  _tile_stored(1, equal_rows + 16, columns * sizeof(float));
  std::copy_n(equal_rows, columns, sums);
}

}  // namespace

const Kernel amx_kernel{.name = "amx",
                        .bf16 = true,
                        .mr = rows,
                        .nr = columns,
                        .a_group = depth,
                        .b_group = 2,
                        .kc = 2048,
                        .strip = 256,
                        .a_in_l1 = true,
                        .tile = tile,
                        .row = row,
                        .enter = enter,
                        .leave = leave};

}  // namespace binade::backend::cpu
#pragma GCC pop_options
#endif
