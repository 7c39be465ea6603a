#pragma once

#include <cstdint>

#include "binade/tensor/tensor.h"

namespace binade {

// The different values of x, and, if asked for, where each element of x is among them (i64, x's
// shape) and how often each occurs (i64).
struct Unique {
  Tensor values, inverse, counts;
};
struct UniqueOptions {
  bool inverse = false;
  bool counts = false;
};
// In ascending order, as one line; every NaN is a value of its own, as in PyTorch. Waits for a GPU,
// as the values decide the result's shape; so do the two below.
Unique unique(const Tensor& x, UniqueOptions options = {});
// One value for each run of equal elements of flat x, in their order.
Unique unique_consecutive(const Tensor& x, UniqueOptions options = {});
// How often 0, 1, ... occur in x, a line of integers of at least 0: i64 [max(x) + 1], or
// [minimum] if that is longer. With weights, of x's shape, the sum of those at each number: f64, or
// f32 of f32.
Tensor bincount(const Tensor& x, const Tensor& weights = {}, int64_t minimum = 0);
// For each value the index (i64) at which it would be inserted into `sorted`, whose last axis is in
// ascending order: before elements equal to it, or after them if `right`. `sorted` is a line, or
// has the axes of `values` before the last one. NaN comes after all numbers.
Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right = false);

}  // namespace binade
