#include "binade/backend/cpu/gemm/pack.h"

#include <algorithm>
#include <cstring>

#include "binade/backend/cpu/gemm/convert.h"
#include "binade/base/division.h"
#include "binade/base/error.h"
#include "binade/formats/convert.h"

namespace binade::backend::cpu {
namespace {

using Vector128 = uint32_t __attribute__((vector_size(16)));

Vector128 load_128(const void* p) {
  Vector128 v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

void store_128(void* p, Vector128 v) { std::memcpy(p, &v, sizeof v); }

// out[k][r] = in[r][k] for a square of units of 4 or 8 bytes, a vector wide; strides in bytes.
// Unlike attention's transpose it moves groups of elements of any type and needs no run-time
// dispatch: it is inlined into packing.
template <int unit>
void transpose(const char* in, int64_t in_stride, char* out, int64_t out_stride) {
  const Vector128 r0 = load_128(in), r1 = load_128(in + in_stride);
  if constexpr (unit == 8) {
    store_128(out, __builtin_shufflevector(r0, r1, 0, 1, 4, 5));
    store_128(out + out_stride, __builtin_shufflevector(r0, r1, 2, 3, 6, 7));
  } else {
    const Vector128 r2 = load_128(in + 2 * in_stride), r3 = load_128(in + 3 * in_stride);
    const Vector128 a = __builtin_shufflevector(r0, r1, 0, 4, 1, 5);
    const Vector128 b = __builtin_shufflevector(r2, r3, 0, 4, 1, 5);
    const Vector128 c = __builtin_shufflevector(r0, r1, 2, 6, 3, 7);
    const Vector128 d = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
    store_128(out, __builtin_shufflevector(a, b, 0, 1, 4, 5));
    store_128(out + out_stride, __builtin_shufflevector(a, b, 2, 3, 6, 7));
    store_128(out + 2 * out_stride, __builtin_shufflevector(c, d, 0, 1, 4, 5));
    store_128(out + 3 * out_stride, __builtin_shufflevector(c, d, 2, 3, 6, 7));
  }
}

// Packs a full panel whose k are contiguous: a group is copied as one unit of `bytes`, so packing
// transposes a matrix of units.
template <int rows, int bytes>
void pack_along_k(const char* in, int64_t row_bytes, int64_t units, char* out) {
  const auto copy = [&](int64_t u, int r) {
    std::memcpy(out + (u * rows + r) * bytes, in + r * row_bytes + u * bytes, bytes);
  };
  int64_t u = 0;
  if constexpr (bytes == 4 || bytes == 8) {
    // With many rows, each step takes a full cache line of every row: rows a power of two apart
    // evict each other's lines before the next step.
    constexpr int side = 16 / bytes, blocked = rows / side * side;
    constexpr int run = rows > 12 ? 64 / bytes : side;
    for (; u + run <= units; u += run) {
      for (int r = 0; r < blocked; r += side) {
        for (int64_t v = u; v < u + run; v += side) {
          transpose<bytes>(in + r * row_bytes + v * bytes, row_bytes, out + (v * rows + r) * bytes,
                           rows * bytes);
        }
      }
      for (int64_t v = u; v < u + run; ++v) {
        for (int r = blocked; r < rows; ++r) copy(v, r);
      }
    }
  }
  for (; u < units; ++u) {
    for (int r = 0; r < rows; ++r) copy(u, r);
  }
}

// out[r][g] = in[g][r] for 8 rows and a power of two of 16-bit k: each round of zips joins adjacent
// units into units of twice the size.
template <int group>
[[gnu::always_inline]] inline void interleave_8(const uint16_t* in, int64_t k_stride, uint16_t* out,
                                                int64_t out_stride) {
  static_assert(group == 2 || group == 4 || group == 8);
  using Halves = uint16_t __attribute__((vector_size(16)));
  using Doubles = uint64_t __attribute__((vector_size(16)));
  Vector128 v[8];
  for (int g = 0; g < group; g += 2) {
    const Halves a = reinterpret_cast<Halves>(load_128(in + g * k_stride));
    const Halves b = reinterpret_cast<Halves>(load_128(in + (g + 1) * k_stride));
    v[g] = reinterpret_cast<Vector128>(__builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11));
    v[g + 1] =
        reinterpret_cast<Vector128>(__builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15));
  }
  if constexpr (group >= 4) {
    for (int g = 0; g < group; g += 4) {
      const Vector128 a = v[g], b = v[g + 1], c = v[g + 2], d = v[g + 3];
      v[g] = __builtin_shufflevector(a, c, 0, 4, 1, 5);
      v[g + 1] = __builtin_shufflevector(a, c, 2, 6, 3, 7);
      v[g + 2] = __builtin_shufflevector(b, d, 0, 4, 1, 5);
      v[g + 3] = __builtin_shufflevector(b, d, 2, 6, 3, 7);
    }
  }
  if constexpr (group == 8) {
    for (int i = 0; i < 4; ++i) {
      const Doubles a = reinterpret_cast<Doubles>(v[i]), b = reinterpret_cast<Doubles>(v[i + 4]);
      store_128(out + 2 * i * out_stride,
                reinterpret_cast<Vector128>(__builtin_shufflevector(a, b, 0, 2)));
      store_128(out + (2 * i + 1) * out_stride,
                reinterpret_cast<Vector128>(__builtin_shufflevector(a, b, 1, 3)));
    }
  } else {
    for (int g = 0; g < group; ++g) store_128(out + 8 * g, v[g]);
  }
}

// Packs a full panel whose rows are contiguous: each group interleaves `group` runs of `rows`.
template <class T, int rows, int group>
void pack_along_rows(const T* in, int64_t k_stride, int64_t depth, T* out) {
  for (int64_t k = 0; k < depth; k += group, in += group * k_stride, out += rows * group) {
    if constexpr (group == 1) {
      std::memcpy(out, in, rows * sizeof(T));
    } else {
      constexpr int blocked = rows / 8 * 8;
      for (int r = 0; r < blocked; r += 8) {
        if constexpr (group <= 4) {
          interleave_8<group>(in + r, k_stride, out + r * group, group);
        } else {
          for (int g = 0; g < group; g += 8) {
            interleave_8<8>(in + g * k_stride + r, k_stride, out + r * group + g, group);
          }
        }
      }
      for (int r = blocked; r < rows; ++r) {
        for (int g = 0; g < group; ++g) out[r * group + g] = in[g * k_stride + r];
      }
    }
  }
}

// Packs complete rows and groups with one stride equal to 1, in the panel's own type.
template <class T, int rows, int group>
void pack_block(const T* in, int64_t row_stride, int64_t k_stride, int64_t depth, T* out) {
  if (k_stride == 1) {
    constexpr int unit = group * static_cast<int>(sizeof(T));
    pack_along_k<rows, unit>(reinterpret_cast<const char*>(in),
                             row_stride * static_cast<int64_t>(sizeof(T)), depth / group,
                             reinterpret_cast<char*>(out));
  } else {
    pack_along_rows<T, rows, group>(in, k_stride, depth, out);
  }
}

constexpr int max_rows = 32;         // of any kernel's panels
constexpr int64_t stage_depth = 64;  // a multiple of every group; a stage fits the L1 cache

// Copies or converts `rows` x `depth` elements from `data` on into `stage` with one stride equal to
// 1, zeros where there is no data.
template <class T, int panel_rows>
void fill_stage(const OperandRows& source, const char* data, int64_t rows, int64_t depth,
                bool along_k, T* stage) {
  const auto size = static_cast<int64_t>(size_of(source.dtype));
  const int64_t lines = along_k ? rows : depth, length = along_k ? depth : rows;
  const int64_t line_stride = along_k ? source.row_stride : source.k_stride;
  const int64_t item_stride = along_k ? source.k_stride : source.row_stride;
  const int64_t stage_stride = along_k ? stage_depth : panel_rows;
  if (rows < panel_rows || depth < stage_depth) std::fill_n(stage, panel_rows * stage_depth, T{});
  for (int64_t i = 0; i < lines; ++i) {
    T* out = stage + i * stage_stride;
    read_elements(data + i * line_stride * size, source.dtype, item_stride, length, out);
    if constexpr (sizeof(T) == 4) {
      if (source.tf32) formats::round_tf32(out, out, static_cast<size_t>(length));
    }
  }
}

// Packs one panel.
template <class T, int rows, int group>
void pack(const OperandRows& source, const OperandBlock& block, T* out) {
  const int64_t depth = block.depth;
  const char* data = source.at(block.row, block.k);
  const bool same_type = source.dtype == (sizeof(T) == 4 ? DType::f32 : DType::bf16);
  const bool one_stride = source.k_stride == 1 || source.row_stride == 1;
  int64_t done = 0;
  if (same_type && one_stride && block.rows == rows && !(source.tf32 && sizeof(T) == 4)) {
    done = round_down(depth, group);
    pack_block<T, rows, group>(reinterpret_cast<const T*>(data), source.row_stride, source.k_stride,
                               done, out);
  }
  alignas(64) T stage[max_rows * stage_depth];
  const bool along_k = source.k_stride == 1 || source.row_stride != 1;
  for (; done < depth; done += stage_depth) {
    const int64_t part = std::min(stage_depth, depth - done);
    fill_stage<T, rows>(source, source.at(block.row, block.k + done), block.rows, part, along_k,
                        stage);
    pack_block<T, rows, group>(stage, along_k ? stage_depth : 1, along_k ? 1 : rows,
                               round_up(part, group), out + done * rows);
  }
}

void pack_panel(const OperandRows& source, const OperandBlock& block, const PanelLayout& layout,
                void* panel) {
  const auto as_f32 = [&]<int panel_rows>() {
    pack<float, panel_rows, 1>(source, block, static_cast<float*>(panel));
  };
  const auto as_bf16 = [&]<int panel_rows, int group>() {
    pack<uint16_t, panel_rows, group>(source, block, static_cast<uint16_t*>(panel));
  };
  if (!layout.bf16 && layout.group == 1) {
    switch (layout.rows) {
      case 4:
        return as_f32.operator()<4>();
      case 6:
        return as_f32.operator()<6>();
      case 8:
        return as_f32.operator()<8>();
      case 12:
        return as_f32.operator()<12>();
      case 14:
        return as_f32.operator()<14>();
      case 16:
        return as_f32.operator()<16>();
      case 32:
        return as_f32.operator()<32>();
    }
  } else if (layout.bf16) {
    switch (layout.rows * 100 + layout.group) {
      case 804:
        return as_bf16.operator()<8, 4>();
      case 1204:
        return as_bf16.operator()<12, 4>();
      case 1402:
        return as_bf16.operator()<14, 2>();
      case 3202:
        return as_bf16.operator()<32, 2>();
      case 3232:
        return as_bf16.operator()<32, 32>();
    }
  }
  fail("gemm", {.argument = "kernel", .expected = "a panel layout that packing supports"});
}

}  // namespace

void pack_panels(const OperandRows& source, const OperandBlock& block, const PanelLayout& layout,
                 const PanelMemory& panels) {
  const int64_t element_bytes = layout.bf16 ? 2 : 4;
  const int64_t rows = block.rows, depth = block.depth;
  // If rows are contiguous in memory, a strip of every panel in turn reads complete cache lines and
  // few pages. Strips are short because lines a power of two apart evict each other. Otherwise each
  // row is a stream of its own.
  const int64_t strip =
      source.row_stride == 1 ? std::max<int64_t>(16, layout.group) : std::max<int64_t>(depth, 1);
  for (int64_t done = 0; done < depth; done += strip) {
    char* out = static_cast<char*>(panels.data) + done * layout.rows * element_bytes;
    for (int64_t r = 0; r < rows; r += layout.rows, out += panels.stride) {
      pack_panel(source,
                 {.row = block.row + r,
                  .rows = std::min<int64_t>(layout.rows, rows - r),
                  .k = block.k + done,
                  .depth = std::min(strip, depth - done)},
                 layout, out);
    }
  }
  // The other operand's groups may be larger than this one's.
  const int64_t k_bytes = layout.rows * element_bytes;
  const int64_t packed = round_up(depth, layout.group) * k_bytes;
  const int64_t padded = round_up(depth, layout.step) * k_bytes;
  char* panel = static_cast<char*>(panels.data);
  for (int64_t r = 0; packed < padded && r < rows; r += layout.rows, panel += panels.stride)
    std::fill(panel + packed, panel + padded, char{0});
}

}  // namespace binade::backend::cpu
