#include <cstring>

#include "binade/backend/cpu/gemm/kernel.h"

namespace binade::backend::cpu {
namespace {

constexpr int rows = 4;
constexpr int columns = 8;

// Four floats in a register of the build's baseline instruction set.
using Vector = float __attribute__((vector_size(16)));

Vector load(const float* p) {
  Vector v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

void tile(int64_t k, PanelPair panels, TileSums sums, bool accumulate, const void* /*prefetch*/) {
  const auto* a = static_cast<const float*>(panels.a);
  const auto* b = static_cast<const float*>(panels.b);
  float* c = sums.data;
  const int64_t ldc = sums.row_stride;
  Vector left[rows], right[rows];
#pragma GCC unroll 4
  for (int i = 0; i < rows; ++i) left[i] = right[i] = Vector{};
  for (int64_t p = 0; p < k; ++p, a += rows, b += columns) {
    const Vector b0 = load(b), b1 = load(b + 4);
#pragma GCC unroll 4
    for (int i = 0; i < rows; ++i) {
      left[i] += a[i] * b0;
      right[i] += a[i] * b1;
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < rows; ++i, c += ldc) {
    if (accumulate) {
      left[i] += load(c);
      right[i] += load(c + 4);
    }
    std::memcpy(c, &left[i], sizeof left[i]);
    std::memcpy(c + 4, &right[i], sizeof right[i]);
  }
}

void row(int64_t k, PanelPair panels, float* sums, bool accumulate) {
  const auto* a = static_cast<const float*>(panels.a);
  const auto* b = static_cast<const float*>(panels.b);
  Vector left{}, right{};
  for (int64_t p = 0; p < k; ++p, b += columns) {
    left += a[p] * load(b);
    right += a[p] * load(b + 4);
  }
  if (accumulate) {
    left += load(sums);
    right += load(sums + 4);
  }
  std::memcpy(sums, &left, sizeof left);
  std::memcpy(sums + 4, &right, sizeof right);
}

}  // namespace

const Kernel portable_kernel{.name = "portable",
                             .bf16 = false,
                             .mr = rows,
                             .nr = columns,
                             .a_group = 1,
                             .b_group = 1,
                             .kc = 256,
                             .strip = 384,
                             .tile = tile,
                             .row = row};

}  // namespace binade::backend::cpu
