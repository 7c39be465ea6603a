#pragma once

#include <cstdint>

// Rows of values in groups that share a scale, compiled once per instruction set.
namespace binade::backend::cpu {

struct GroupRows {
  // Raises largest[g] to the bits of the largest magnitude of group g, `width` of `count` values.
  // Magnitudes order like their bits, with NaN above all others.
  void (*raise)(const float* values, int64_t count, int64_t width, uint32_t* largest);
  // Multiplies the values of group g by factors[g].
  void (*scale)(float* values, int64_t count, int64_t width, const float* factors);
  // Multiplies runs of `size` values by a Hadamard matrix (Sylvester's) whose row i is negated if
  // bit i of `signs` is set, and by `factor`.
  void (*hadamard)(float* values, int64_t count, int size, uint64_t signs, float factor);
  // to[row * to_stride + column] = from[column * from_stride + row], of elements of 2 or 4 bytes.
  void (*transpose16)(const uint16_t* from, int64_t from_stride, int64_t rows, int64_t columns,
                      uint16_t* to, int64_t to_stride);
  void (*transpose32)(const uint32_t* from, int64_t from_stride, int64_t rows, int64_t columns,
                      uint32_t* to, int64_t to_stride);
};

// Those of the best instruction set that the machine has.
const GroupRows& group_rows();

}  // namespace binade::backend::cpu
