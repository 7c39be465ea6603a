#pragma once

#include <algorithm>
#include <cstdint>

#include "binade/backend/audit/session.h"
#include "binade/base/division.h"

// The pieces of a matmul's result.
namespace binade::backend::audit {

inline constexpr int64_t tile_size = 64;

// A part of an axis. The last one overlaps the one before, so that all have one size: kernels treat
// single rows and columns differently.
struct Part {
  int64_t begin, count;
};

inline Part part_of(int64_t axis, int64_t size, int64_t index) {
  const int64_t count = std::min(axis, size);
  return {std::min(index * size, axis - count), count};
}

struct Tile {
  int64_t batch;
  Part rows, columns;

  TensorView of(const TensorView& y) const {
    if (!y.present) return y;
    return only_matrix(slice(slice(slice(y, 0, batch, 1), 1, rows.begin, rows.count), 2,
                             columns.begin, columns.count));
  }
  TensorView of_a(const TensorView& a) const {
    return slice(slice(a, 0, batch, 1), 1, rows.begin, rows.count);
  }
  TensorView of_b(const TensorView& b) const {
    return slice(slice(b, 0, batch, 1), 2, columns.begin, columns.count);
  }
  TensorView of_bias(const TensorView& bias) const {
    return slice(bias, 0, columns.begin, columns.count);
  }
  // Its first element, among those of y.
  int64_t first_of(const TensorView& y) const {
    return (batch * y.shape[1] + rows.begin) * y.shape[2] + columns.begin;
  }
};

class Tiles {
 public:
  explicit Tiles(const TensorView& y)
      : shape_(y.shape),
        rows_(divide_up(y.shape[1], tile_size)),
        columns_(divide_up(y.shape[2], tile_size)) {}

  int64_t count() const { return shape_[0] * rows_ * columns_; }
  Tile operator[](int64_t index) const {
    const int64_t in_batch = index % (rows_ * columns_);
    return {index / (rows_ * columns_), part_of(shape_[1], tile_size, in_batch / columns_),
            part_of(shape_[2], tile_size, in_batch % columns_)};
  }

 private:
  Shape shape_;
  int64_t rows_, columns_;
};

}  // namespace binade::backend::audit
