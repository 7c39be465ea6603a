#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace binade::backend::cpu {

// A micro-kernel multiplies one packed panel of A (mr rows) with one packed panel of B (nr
// columns) over a block of K and stores, or adds to, an mr x nr tile of f32 sums.
//
// A panel is laid out [k / group][rows][group], zero-padded to whole rows and whole groups:
// group 1 is the classic column after column, larger groups suit instructions that multiply
// several k at once. Each sum runs over k in ascending order, one chain per output element, so a
// result does not depend on where in a tile it was computed.
//
// `soon` points to a part of B that comes later: b's size / soon_share of it is this call's to
// fetch.
struct Kernel {
  std::string_view name;
  bool bf16;             // packed elements are bf16 rather than f32
  int mr, nr;            // rows of a panel of A, columns of a panel of B
  int a_group, b_group;  // one divides the other
  int64_t kc;            // K block: a multiple of both groups
  // Columns that a tile's rows meet at a time, at most; outputs are finished in runs of that
  // length.
  int64_t strip;
  // Columns whose sums are kept near by while K goes on.
  int64_t columns = 1024;
  // Whether each panel of A meets all of B's of a strip in turn, or each of B's all of A's.
  bool a_in_l1 = false;
  void (*tile)(int64_t k, const void* a, const void* b, float* c, int64_t ldc, bool accumulate,
               const void* soon);
  void (*enter)() = nullptr;  // called before and after a run of tiles on a thread
  void (*leave)() = nullptr;

  static constexpr int64_t soon_share = 8;

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

// A level is what one generation of CPUs offers: a kernel for f32 and perhaps one for bf16.
struct Level {
  std::string_view name;  // as BINADE_CPU spells it
  const Kernel* f32;
  const Kernel* bf16;  // null: bf16 operands are widened to f32
};

// The levels this CPU can run, the plain one first, the best one last.
std::span<const Level> available_levels();

// The level in use: the best one, or the one that BINADE_CPU names.
const Level& current_level();

// Replaces the level in use, by name; fails where the CPU lacks it. For tests and benchmarks.
void set_level(std::string_view name);

}  // namespace binade::backend::cpu
