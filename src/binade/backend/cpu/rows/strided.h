#pragma once

#include <cstdint>
#include <initializer_list>

#include "binade/tensor/tensor.h"

// Access to views of any type and any strides, a block at a time: a kernel is written once, for
// contiguous blocks of its compute type.
namespace binade::backend::cpu {

// Elements per block: small enough for the blocks of all operands to stay in the L1 cache.
inline constexpr int64_t block_size = 1024;

// Fewest elements per thread, and the same in items of several elements.
inline constexpr int64_t elementwise_grain = 32 * block_size;
inline int64_t grain_for(int64_t elements_per_item) {
  return elementwise_grain / (elements_per_item > 1 ? elements_per_item : 1) + 1;
}

// Calls f with float, double or int64_t, whichever holds a dtype's elements exactly.
template <class F>
void with_exact_type(DType dtype, F&& f) {
  if (dtype == DType::f64) return f(TypeTag<double>{});
  if (is_floating(dtype)) return f(TypeTag<float>{});
  f(TypeTag<int64_t>{});
}

// Calls f with the unsigned type of a dtype's size, for kernels that only move elements.
template <class F>
void with_bits(DType dtype, F&& f) {
  switch (size_of(dtype)) {
    case 1:
      return f(TypeTag<uint8_t>{});
    case 2:
      return f(TypeTag<uint16_t>{});
    case 4:
      return f(TypeTag<uint32_t>{});
    default:
      return f(TypeTag<uint64_t>{});
  }
}

// Calls body(start, count) for the blocks of [begin, end).
template <class Body>
void for_blocks(int64_t begin, int64_t end, Body&& body) {
  for (int64_t at = begin; at < end; at += block_size) {
    body(at, end - at < block_size ? end - at : block_size);
  }
}

// A view's axes in row-major order, as few as possible: without axes of size 1, and with contiguous
// neighbors merged.
struct Layout {
  explicit Layout(const TensorView& view);

  // Calls f(position, offset, stride, count) for the runs of [start, start + n): element position +
  // i of the range is at memory offset + i * stride.
  template <class F>
  void for_runs(int64_t start, int64_t n, F&& f) const;

  // Memory offset of element `index` in row-major order.
  int64_t offset_of(int64_t index) const;

  int rank = 0;  // at least 1
  int64_t sizes[max_rank];
  int64_t strides[max_rank];
};

// Permutes the axes of all views alike, so that the strides of the last one descend. Elementwise
// kernels may run in any order; that of the output's memory is the fastest.
void sort_axes(std::initializer_list<TensorView*> views);

// Drops axes of size 1 and merges neighboring axes that are contiguous in all views, which have one
// shape. At least one axis is left.
void merge_axes(std::initializer_list<TensorView*> views);

// The view of index 0 along `axis`, without that axis.
TensorView without_axis(const TensorView& view, int axis);

// Memory offset of element `index` in row-major order.
int64_t offset_in(const TensorView& view, int64_t index);

// Convert n elements of a view's memory, `stride` apart from `offset` on, to T and back, as
// backend/cast.h does. T is float, double, int64_t or, for reading, bool.
template <class T>
void read_run(const TensorView& x, int64_t offset, int64_t stride, int64_t n, T* out);
template <class T>
void write_run(const T* values, const TensorView& y, int64_t offset, int64_t stride, int64_t n);

// read_run() that returns the memory itself if it holds contiguous T.
template <class T>
const T* load_run(const TensorView& x, int64_t offset, int64_t stride, int64_t n, T* scratch) {
  if (stride == 1 && x.dtype == dtype_of<T>) return x.as<T>() + offset;
  read_run(x, offset, stride, n, scratch);
  return scratch;
}

// Reads a view's elements as contiguous blocks of T.
template <class T>
class Source {
 public:
  explicit Source(const TensorView& view) : view_(view), layout_(view) {}

  // Elements [start, start + n) in row-major order, n <= block_size: in place if memory holds
  // contiguous T, else converted. Valid until the next call.
  const T* read(int64_t start, int64_t n);

  // Moves the view to `offset` elements from its original position.
  void move_to(int64_t offset) {
    offset_ = offset;
    filled_ = false;
  }

 private:
  TensorView view_;
  Layout layout_;
  int64_t offset_ = 0;
  bool filled_ = false;  // scratch_ holds the only value of a constant operand
  alignas(64) T scratch_[block_size];
};

// Writes blocks of T to a view.
template <class T>
class Sink {
 public:
  explicit Sink(const TensorView& view) : view_(view), layout_(view) {}

  // Memory for elements [start, start + n), n <= block_size: in place if possible.
  T* target(int64_t start, int64_t n);
  // Writes the elements put there, rounded once to the view's type.
  void commit(int64_t start, int64_t n);

 private:
  TensorView view_;
  Layout layout_;
  bool direct_ = false;
  alignas(64) T scratch_[block_size];
};

template <class F>
void Layout::for_runs(int64_t start, int64_t n, F&& f) const {
  int64_t index[max_rank];
  int64_t offset = 0;
  for (int axis = rank - 1; axis >= 0; --axis) {
    index[axis] = axis == 0 ? start : start % sizes[axis];
    start = axis == 0 ? 0 : start / sizes[axis];
    offset += index[axis] * strides[axis];
  }
  const int inner = rank - 1;
  for (int64_t position = 0; position < n;) {
    const int64_t rest = sizes[inner] - index[inner];
    const int64_t count = rest < n - position ? rest : n - position;
    f(position, offset, strides[inner], count);
    position += count;
    offset += count * strides[inner];
    index[inner] += count;
    for (int axis = inner; axis > 0 && index[axis] == sizes[axis]; --axis) {
      offset += strides[axis - 1] - sizes[axis] * strides[axis];
      index[axis] = 0;
      ++index[axis - 1];
    }
  }
}

}  // namespace binade::backend::cpu
