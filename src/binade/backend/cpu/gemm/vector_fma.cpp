#include <algorithm>
#include <type_traits>
#include <utility>

#include "binade/backend/cpu/gemm/convert.h"
#include "binade/backend/cpu/gemm/k_blocks.h"
#include "binade/backend/cpu/gemm/row_dots.h"
#include "binade/backend/cpu/gemm/scratch.h"
#include "binade/backend/cpu/gemm/vector.h"
#include "binade/base/division.h"
#include "binade/base/parallel.h"
#include "binade/formats/convert.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "binade/backend/cpu/gemm/vector_fma.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h

#include <hwy/highway.h>

#include "binade/formats/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace binade::backend::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using formats::HWY_NAMESPACE::load_f32;

// Calls body with a null pointer to the C++ type of `dtype`: f32, f16 or bf16.
template <class Body>
void with_type(DType dtype, Body body) {
  switch (dtype) {
    case DType::f16:
      return body(static_cast<const f16*>(nullptr));
    case DType::bf16:
      return body(static_cast<const bf16*>(nullptr));
    default:
      return body(static_cast<const float*>(nullptr));
  }
}

// Blocks of 128 bits on every CPU: a matrix that streams from memory is no faster with wider ones.
constexpr int lanes = 4;
using Four = hn::FixedTag<float, lanes>;
using Vector = hn::Vec<Four>;

// Column k of the result is row k of 4 x 4 units of 32 bits.
struct Square {
  Vector column[4];
};
Square transpose(Vector r0, Vector r1, Vector r2, Vector r3) {
  const Four d;
  const hn::Repartition<double, Four> pairs;
  const auto join = [&](auto low, auto high) HWY_ATTR {
    return std::pair(hn::BitCast(d, hn::InterleaveLower(pairs, hn::BitCast(pairs, low),
                                                        hn::BitCast(pairs, high))),
                     hn::BitCast(d, hn::InterleaveUpper(pairs, hn::BitCast(pairs, low),
                                                        hn::BitCast(pairs, high))));
  };
  const auto [c0, c1] = join(hn::InterleaveLower(d, r0, r1), hn::InterleaveLower(d, r2, r3));
  const auto [c2, c3] = join(hn::InterleaveUpper(d, r0, r1), hn::InterleaveUpper(d, r2, r3));
  return {{c0, c1, c2, c3}};
}

// Four rows of a matrix, contiguous in k, and their chains of FMAs with a vector.
template <class T>
class FourRows {
 public:
  static constexpr int depth = std::is_same_v<T, bf16> ? 8 : 4;  // of a step

  FourRows(const T* rows, int64_t stride) : rows_(rows), stride_(stride) {}

  void step(const float* x, int64_t k) {
    const Four d;
    const T* at = rows_ + k;
    if constexpr (std::is_same_v<T, bf16>) {
      // A unit is two k: the first in the low half.
      const hn::Repartition<uint16_t, Four> halves;
      const auto row = [&](int r) HWY_ATTR {
        return hn::BitCast(d, hn::LoadU(halves, &at[r * stride_].bits));
      };
      const hn::RebindToUnsigned<Four> bits;
      const Square units = transpose(row(0), row(1), row(2), row(3));
      for (int i = 0; i < 4; ++i) {
        const auto unit = hn::BitCast(bits, units.column[i]);
        add(hn::BitCast(d, hn::ShiftLeft<16>(unit)), x[k + 2 * i]);
        add(hn::BitCast(d, hn::And(unit, hn::Set(bits, 0xffff0000u))), x[k + 2 * i + 1]);
      }
    } else {
      const Square units = transpose(load_f32(d, at), load_f32(d, at + stride_),
                                     load_f32(d, at + 2 * stride_), load_f32(d, at + 3 * stride_));
      for (int i = 0; i < 4; ++i) add(units.column[i], x[k + i]);
    }
  }

  void step_by_one(const float* x, int64_t k) {
    float column[lanes];
    for (int r = 0; r < lanes; ++r) column[r] = static_cast<float>(rows_[r * stride_ + k]);
    add(hn::LoadU(Four(), column), x[k]);
  }

  // Ends the chains of a block: stores them, or adds them to those of earlier blocks.
  void finish(float* sums, bool accumulate) {
    const Four d;
    hn::StoreU(accumulate ? hn::Add(hn::LoadU(d, sums), sum_) : sum_, d, sums);
    sum_ = hn::Zero(d);
  }

 private:
  void add(Vector column, float x) { sum_ = hn::MulAdd(column, hn::Set(Four(), x), sum_); }

  const T* rows_;
  int64_t stride_;
  Vector sum_ = hn::Zero(Four());
};

template <class T>
void dots_of(const T* rows, const RowDots& call) {
  FourRows<T> upper(rows, call.stride), lower(rows + 4 * call.stride, call.stride);
  constexpr int64_t step = FourRows<T>::depth;
  // Eight streams are more than prefetchers follow, so a step fetches what as many rows after these
  // have in memory, line by line: 0.87 of the speed of one stream instead of 0.45 (Neoverse N1).
  const char* next = reinterpret_cast<const char*>(rows + 8 * call.stride);
  for (int64_t begin = 0; begin < std::max<int64_t>(call.k, 1); begin += call.block) {
    const int64_t end = std::min(begin + call.block, call.k);
    int64_t k = begin;
    for (; k + step <= end; k += step, next += 8 * step * sizeof(T)) {
      __builtin_prefetch(next, 0, 2);
      if constexpr (8 * step * sizeof(T) > 64) __builtin_prefetch(next + 64, 0, 2);
      upper.step(call.x, k);
      lower.step(call.x, k);
    }
    for (; k < end; ++k) {
      upper.step_by_one(call.x, k);
      lower.step_by_one(call.x, k);
    }
    upper.finish(call.sums, call.accumulate || begin > 0);
    lower.finish(call.sums + 4, call.accumulate || begin > 0);
  }
}

void dots(const RowDots& call) {
  with_type(call.dtype,
            [&](auto tag) HWY_ATTR { dots_of(static_cast<decltype(tag)>(call.rows), call); });
}

template <class T>
void axpy_of(const float* x, const T* w, int64_t k_stride, int64_t depth, int64_t count, float* y) {
  const hn::ScalableTag<float> d;
  const int64_t width = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < count; i += width) {
    auto v = hn::LoadU(d, y + i);
    for (int64_t k = 0; k < depth; ++k) {
      v = hn::MulAdd(hn::Set(d, x[k]), load_f32(d, w + k * k_stride + i), v);
    }
    hn::StoreU(v, d, y + i);
  }
}

// y[i] += x[0] * w(i, 0) + x[1] * w(i, 1) + ... over `depth` terms, in this order, for `count`
// contiguous rows of w. count is a multiple of the vector's lanes.
void axpy(const float* x, const OperandRows& w, int64_t depth, int64_t count, float* y) {
  with_type(w.dtype, [&](auto tag) HWY_ATTR {
    axpy_of(x, static_cast<decltype(tag)>(w.data), w.k_stride, depth, count, y);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace binade::backend::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace binade::backend::cpu {
namespace {

HWY_EXPORT(dots);
HWY_EXPORT(axpy);

constexpr int64_t rows_at_once = 8;
constexpr int64_t columns = 1024;     // outputs of one strip: their sums fit the L1 cache
constexpr int64_t k_at_once = 8;      // sums are read and written once for 8 k
constexpr int64_t vector_lanes = 16;  // a multiple of any instruction set's

// A product and its vector in f32.
struct FmaProduct {
  const VectorProduct& product;
  const Kernel& kernel;
  const float* x;
};

// Whether elements need no conversion first. 8-bit types widen faster a row at a time.
bool is_direct(const OperandRows& w) {
  return size_of(w.dtype) > 1 && !(w.tf32 && w.dtype == DType::f32);
}

// Converts elements `stride` apart to contiguous f32.
void gather(const OperandRows& w, const char* from, int64_t stride, int64_t count, float* out) {
  read_elements(from, w.dtype, stride, count, out);
  if (w.tf32) formats::round_tf32(out, out, static_cast<size_t>(count));
}

// Converts up to rows_at_once rows of a K block to contiguous f32. Missing ones repeat the last.
const float* stage_rows(const OperandRows& w, const OperandBlock& block) {
  float* stage = gemm_scratch().tile.get<float>(rows_at_once * block.depth);
  for (int64_t r = 0; r < rows_at_once; ++r) {
    float* row = stage + r * block.depth;
    if (r < block.rows) {
      gather(w, w.at(block.row + r, block.k), w.k_stride, block.depth, row);
    } else {
      std::copy_n(row - block.depth, block.depth, row);
    }
  }
  return stage;
}

// Up to rows_at_once outputs.
void multiply_rows(const FmaProduct& p, int64_t first) {
  const OperandRows& w = p.product.matrix;
  const int64_t rows = std::min(rows_at_once, p.product.outputs - first);
  const KBlocks blocks(p.product.k, p.kernel);
  float* sums = p.product.sums + first;
  if (w.k_stride == 1 && is_direct(w) && rows == rows_at_once) {
    return HWY_DYNAMIC_DISPATCH(dots)(
        {w.at(first, 0), w.dtype, w.row_stride, p.x, p.product.k, blocks.depth(), sums, false});
  }
  blocks.for_each([&](int64_t k, int64_t depth) {
    const float* stage = stage_rows(w, {first, rows, k, depth});
    HWY_DYNAMIC_DISPATCH(dots)
    ({stage, DType::f32, depth, p.x + k, depth, std::max<int64_t>(depth, 1), sums, k > 0});
  });
}

// One K block of a strip of at most `columns` outputs, whose elements of one k are contiguous.
void multiply_strip(const FmaProduct& p, const OperandBlock& block, float* sums) {
  const OperandRows& w = p.product.matrix;
  // Elements that need a conversion or do not fill a vector go through padded copies.
  const int64_t direct = is_direct(w) ? round_down(block.rows, vector_lanes) : 0;
  const int64_t rest = block.rows - direct, padded = round_up(rest, vector_lanes);
  alignas(64) float stage[columns];
  std::fill(stage + rest, stage + padded, 0.0f);
  for (int64_t k = block.k; k < block.k + block.depth; k += k_at_once) {
    const int64_t depth = std::min(k_at_once, block.k + block.depth - k);
    OperandRows strip = w;
    strip.data = w.at(block.row, k);
    HWY_DYNAMIC_DISPATCH(axpy)(p.x + k, strip, depth, direct, sums);
    for (int64_t i = 0; rest > 0 && i < depth; ++i) {
      gather(w, w.at(block.row + direct, k + i), 1, rest, stage);
      HWY_DYNAMIC_DISPATCH(axpy)
      (p.x + k + i, OperandRows{stage, DType::f32, 1, 0}, 1, padded, sums + direct);
    }
  }
}

void multiply_columns(const FmaProduct& p, int64_t first) {
  const int64_t count = std::min(columns, p.product.outputs - first);
  float* out = p.product.sums + first;
  KBlocks(p.product.k, p.kernel).for_each([&](int64_t k, int64_t depth) {
    alignas(64) float sums[columns] = {};
    multiply_strip(p, {first, count, k, depth}, sums);
    for (int64_t i = 0; i < count; ++i) out[i] = k > 0 ? out[i] + sums[i] : sums[i];
  });
}

}  // namespace

void multiply_by_fma(const VectorProduct& product, const Kernel& kernel) {
  const OperandRows& w = product.matrix;
  float* x = gemm_scratch().packed_a.get<float>(std::max<int64_t>(product.k, 1));
  gather(product.vector, product.vector.at(0, 0), product.vector.k_stride, product.k, x);
  const FmaProduct p{product, kernel, x};
  const bool by_columns = w.row_stride == 1 && w.k_stride != 1;
  const int64_t at_once = by_columns ? columns : rows_at_once;
  const int64_t grain =
      std::max<int64_t>(1, VectorProduct::work_grain / (at_once * (product.k + 1)));
  parallel_for(divide_up(product.outputs, at_once), grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      by_columns ? multiply_columns(p, i * at_once) : multiply_rows(p, i * at_once);
  });
}

}  // namespace binade::backend::cpu
#endif
