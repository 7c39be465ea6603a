#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace binade::backend::cpu {

// A micro-kernel multiplies one packed panel of A (mr rows) with one packed panel of B (nr columns)
// over a block of K and stores, or adds to, an mr x nr tile of f32 sums.
//
// A panel is laid out [k / group][rows][group], zero-padded to complete rows and groups: group 1 is
// the usual column after column, larger groups suit instructions that multiply several k at once.
// Each sum runs over k in ascending order, one chain per output element, so a result does not
// depend on its position in a tile.
//
// Arguments are structs of two words, which are passed in registers: one struct in memory for all
// of them made the NEON kernel 5% slower.
struct PanelPair {
  const void* a;
  const void* b;
};
struct TileSums {
  float* data;
  int64_t row_stride;
};

struct Kernel {
  std::string_view name;
  bool bf16;             // packed elements are bf16 rather than f32
  int mr, nr;            // rows of a panel of A, columns of a panel of B
  int a_group, b_group;  // one divides the other
  int64_t kc;            // K block: a multiple of both groups, tuned by measurement like `strip`
  // Columns that a tile's rows are multiplied with at a time, at most; outputs are finished in runs
  // of that length.
  int64_t strip;
  // Columns whose sums are kept from one K block to the next: with 256 rows, 1 MiB of the L2 cache.
  int64_t columns = 1024;
  // True: each panel of A stays in the nearest cache while all panels of B of a strip pass by.
  // False: each panel of B stays while all panels of A pass by.
  bool a_in_l1 = false;
  // `prefetch` is a part of B that later calls need; this call may prefetch as many bytes of it as
  // its own panel of B has, divided by prefetch_divisor.
  void (*tile)(int64_t k, PanelPair panels, TileSums sums, bool accumulate, const void* prefetch);
  // The same for one row, with the bits that a tile gives it: `a` is k elements in a row, `sums` nr
  // of them. Null: a tile adds each product by an f32 FMA, which needs no packed panels.
  void (*row)(int64_t k, PanelPair panels, float* sums, bool accumulate) = nullptr;
  void (*enter)() = nullptr;  // called before and after a run of tiles on a thread
  void (*leave)() = nullptr;

  // With an eighth of a panel of B per call, 8 panels of A are enough to prefetch the next strip.
  static constexpr int64_t prefetch_divisor = 8;

  int group() const { return a_group > b_group ? a_group : b_group; }
  int64_t element_bytes() const { return bf16 ? 2 : 4; }
};

extern const Kernel portable_kernel;
#if defined(__aarch64__)
extern const Kernel neon_kernel;
extern const Kernel neon_bf16_kernel;
#elif defined(__x86_64__)
extern const Kernel avx2_kernel;
extern const Kernel avx512_kernel;
extern const Kernel avx512_bf16_kernel;
extern const Kernel amx_kernel;
#endif

// The kernels of one generation of CPUs: one for f32 and perhaps one for bf16.
struct Level {
  std::string_view name;  // as BINADE_CPU spells it
  const Kernel* f32;
  const Kernel* bf16;  // null: bf16 operands are widened to f32
};

// The levels this CPU can run, the portable one first, the best one last.
std::span<const Level> available_levels();

// The level in use: the best one, or the one that BINADE_CPU names.
const Level& current_level();

// Replaces the level in use, by name; fails if the CPU lacks it. For tests and benchmarks.
void set_level(std::string_view name);

}  // namespace binade::backend::cpu
