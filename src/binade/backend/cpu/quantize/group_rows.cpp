#include "binade/backend/cpu/quantize/group_rows.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "binade/backend/cpu/quantize/group_rows.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace binade::backend::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr uint32_t magnitude_bits = 0x7FFFFFFFu;

uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

void raise(const float* values, int64_t count, int64_t width, uint32_t* largest) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t begin = 0; begin < count; begin += width, ++largest) {
    const int64_t end = std::min(count, begin + width);
    int64_t i = begin;
    uint32_t found = *largest;
    if (i + lanes <= end) {
      auto most = hn::Zero(du);
      for (; i + lanes <= end; i += lanes)
        most = hn::Max(most, hn::BitCast(du, hn::Abs(hn::LoadU(d, values + i))));
      found = std::max(found, hn::GetLane(hn::MaxOfLanes(du, most)));
    }
    for (; i < end; ++i) found = std::max(found, bits_of(values[i]) & magnitude_bits);
    *largest = found;
  }
}

void scale(float* values, int64_t count, int64_t width, const float* factors) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t begin = 0; begin < count; begin += width, ++factors) {
    const int64_t end = std::min(count, begin + width);
    const auto factor = hn::Set(d, *factors);
    int64_t i = begin;
    for (; i + lanes <= end; i += lanes)
      hn::StoreU(hn::Mul(hn::LoadU(d, values + i), factor), d, values + i);
    for (; i < end; ++i) values[i] *= *factors;
  }
}

using Four = hn::FixedTag<float, 4>;
using Quad = hn::Vec<Four>;

// One step of the transform between neighbours in fours: a + b, then a - b.
HWY_INLINE Quad butterfly(Quad v, Quad swapped, Quad minus) {
  return hn::Add(swapped, hn::Xor(v, minus));
}

// The steps of a run of at least four values whose partners are `half` apart.
HWY_INLINE void far_step(float* run, int size, int half) {
  const Four d;
  for (int begin = 0; begin < size; begin += 2 * half) {
    for (int i = begin; i < begin + half; i += 4) {
      const Quad a = hn::LoadU(d, run + i), b = hn::LoadU(d, run + i + half);
      hn::StoreU(hn::Add(a, b), d, run + i);
      hn::StoreU(hn::Sub(a, b), d, run + i + half);
    }
  }
}

void hadamard_of_two(float* values, int64_t count, uint64_t signs, float factor) {
  for (float* run = values; run + 2 <= values + count; run += 2) {
    const float a = (signs & 1) != 0 ? -run[0] : run[0];
    const float b = (signs & 2) != 0 ? -run[1] : run[1];
    run[0] = (a + b) * factor;
    run[1] = (a - b) * factor;
  }
}

void hadamard(float* values, int64_t count, int size, uint64_t signs, float factor) {
  const Four d;
  HWY_ALIGN float minus[64];
  for (int i = 0; i < size; ++i) minus[i] = (signs >> i & 1) != 0 ? -0.0f : 0.0f;
  if (size == 2) return hadamard_of_two(values, count, signs, factor);
  HWY_ALIGN constexpr float odd[4] = {0, -0.0f, 0, -0.0f}, upper[4] = {0, 0, -0.0f, -0.0f};
  const Quad minus_odd = hn::Load(d, odd), minus_upper = hn::Load(d, upper);
  const Quad factors = hn::Set(d, factor);
  for (float* run = values; run + size <= values + count; run += size) {
    for (int i = 0; i < size; i += 4) {
      Quad v = hn::Xor(hn::LoadU(d, run + i), hn::Load(d, minus + i));
      v = butterfly(v, hn::Shuffle2301(v), minus_odd);
      v = butterfly(v, hn::Shuffle1032(v), minus_upper);
      hn::StoreU(v, d, run + i);
    }
    for (int half = 4; half < size; half *= 2) far_step(run, size, half);
    for (int i = 0; i < size; i += 4)
      hn::StoreU(hn::Mul(hn::LoadU(d, run + i), factors), d, run + i);
  }
}

// Transposes whatever squares leave.
template <class T>
void transpose_each(const T* from, int64_t from_stride, int64_t rows, int64_t columns, T* to,
                    int64_t to_stride) {
  for (int64_t column = 0; column < columns; ++column) {
    for (int64_t row = 0; row < rows; ++row)
      to[row * to_stride + column] = from[column * from_stride + row];
  }
}

// Transposes a square whose rows are vectors of 128 bits. Interleaving rows i and i + side / 2
// moves a bit of an element's row number to its column number: all bits have moved after log2(side)
// times.
template <class T, int side>
HWY_INLINE void transpose_square(const T* from, int64_t from_stride, T* to, int64_t to_stride) {
  const hn::FixedTag<T, side> d;
  using V = hn::Vec<decltype(d)>;
  V rows[side], next[side];
  for (int i = 0; i < side; ++i) rows[i] = hn::LoadU(d, from + i * from_stride);
  for (int step = 1; step < side; step *= 2) {
    for (int i = 0; i < side / 2; ++i) {
      next[2 * i] = hn::InterleaveLower(d, rows[i], rows[i + side / 2]);
      next[2 * i + 1] = hn::InterleaveUpper(d, rows[i], rows[i + side / 2]);
    }
    for (int i = 0; i < side; ++i) rows[i] = next[i];
  }
  for (int i = 0; i < side; ++i) hn::StoreU(rows[i], d, to + i * to_stride);
}

template <class T, int side>
void transpose(const T* from, int64_t from_stride, int64_t rows, int64_t columns, T* to,
               int64_t to_stride) {
  const int64_t whole_rows = rows / side * side, whole_columns = columns / side * side;
  for (int64_t top = 0; top < whole_rows; top += side) {
    for (int64_t left = 0; left < whole_columns; left += side)
      transpose_square<T, side>(from + left * from_stride + top, from_stride,
                                to + top * to_stride + left, to_stride);
  }
  transpose_each(from + whole_columns * from_stride, from_stride, rows, columns - whole_columns,
                 to + whole_columns, to_stride);
  transpose_each(from + whole_rows, from_stride, rows - whole_rows, whole_columns,
                 to + whole_rows * to_stride, to_stride);
}

const GroupRows* rows_in_groups() {
  static constexpr GroupRows all{raise, scale, hadamard, transpose<uint16_t, 8>,
                                 transpose<uint32_t, 4>};
  return &all;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace binade::backend::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace binade::backend::cpu {

HWY_EXPORT(rows_in_groups);

// Looked up on every call, because tests switch the instruction set.
const GroupRows& group_rows() { return *HWY_DYNAMIC_DISPATCH(rows_in_groups)(); }

}  // namespace binade::backend::cpu
#endif
