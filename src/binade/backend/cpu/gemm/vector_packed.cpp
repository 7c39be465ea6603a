#include <algorithm>

#include "binade/backend/cpu/gemm/convert.h"
#include "binade/backend/cpu/gemm/k_blocks.h"
#include "binade/backend/cpu/gemm/scratch.h"
#include "binade/backend/cpu/gemm/vector.h"
#include "binade/base/division.h"
#include "binade/base/parallel.h"
#include "binade/formats/convert.h"

namespace binade::backend::cpu {
namespace {

// Panels of outputs that are packed at a time. Outputs whose elements of one k are adjacent in
// memory are read in runs of a few cache lines.
int64_t panels_at_once(const VectorProduct& p, const Kernel& kernel) {
  return p.matrix.row_stride == 1 ? divide_up(96, kernel.nr) : 1;
}

// Computes outputs from `first` on: packs each K block of their panels and multiplies it while it
// is in the nearest caches. `vector` is in the kernel's type.
void multiply_panels(const VectorProduct& p, const Kernel& kernel, const char* vector,
                     int64_t first) {
  const KBlocks blocks(p.k, kernel);
  const PanelLayout layout{kernel.bf16, kernel.nr, kernel.b_group, kernel.group()};
  const int64_t panels = panels_at_once(p, kernel);
  const int64_t outputs = std::min(panels * kernel.nr, p.outputs - first);
  const int64_t panel_bytes = blocks.depth() * kernel.nr * kernel.element_bytes();
  char* packed = gemm_scratch().tile.get<char>(panel_bytes * panels);
  blocks.for_each([&](int64_t k, int64_t depth) {
    pack_panels(p.matrix, {first, outputs, k, depth}, layout, {packed, panel_bytes});
    for (int64_t i = 0; i * kernel.nr < outputs; ++i) {
      kernel.row(round_up(depth, kernel.group()),
                 {.a = vector + k * kernel.element_bytes(), .b = packed + i * panel_bytes},
                 p.sums + first + i * kernel.nr, k > 0);
    }
  });
}

// The vector in the kernel's type, with zeros up to a complete group.
template <class T>
const char* read_vector(const OperandRows& vector, int64_t k, int64_t group) {
  T* out = gemm_scratch().packed_a.get<T>(round_up(k, group));
  read_elements(vector.data, vector.dtype, vector.k_stride, k, out);
  std::fill(out + k, out + round_up(k, group), T{});
  if constexpr (sizeof(T) == 4) {
    if (vector.tf32) formats::round_tf32(out, out, static_cast<size_t>(k));
  }
  return reinterpret_cast<const char*>(out);
}

}  // namespace

void multiply_packed(const VectorProduct& p, const Kernel& kernel) {
  const auto read = kernel.bf16 ? read_vector<uint16_t> : read_vector<float>;
  const char* vector = read(p.vector, p.k, kernel.group());
  const int64_t at_once = panels_at_once(p, kernel) * kernel.nr;
  const int64_t grain = std::max<int64_t>(1, VectorProduct::work_grain / (at_once * (p.k + 1)));
  parallel_for(divide_up(p.outputs, at_once), grain, [&](int64_t begin, int64_t end) {
    if (kernel.enter != nullptr) kernel.enter();
    for (int64_t i = begin; i < end; ++i) multiply_panels(p, kernel, vector, i * at_once);
    if (kernel.leave != nullptr) kernel.leave();
  });
}

}  // namespace binade::backend::cpu
