#include "binade/backend/cpu/reduce/axes.h"

#include <cstdlib>
#include <utility>

namespace binade::backend::cpu {
namespace {

TensorView without_axes(const TensorView& view) {
  TensorView result = view;
  result.shape = {};
  result.strides = {};
  return result;
}

void push(TensorView& view, int64_t size, int64_t stride) {
  view.shape.push_back(size);
  view.strides.push_back(stride);
}

// Insertion sort by descending stride; a companion is permuted alike.
void sort_by_stride(TensorView& view, TensorView* companion) {
  for (int axis = 1; axis < view.rank(); ++axis) {
    for (int at = axis; at > 0; --at) {
      if (std::abs(view.strides[at - 1]) >= std::abs(view.strides[at])) break;
      for (TensorView* each : {&view, companion}) {
        if (each == nullptr) continue;
        std::swap(each->shape[at - 1], each->shape[at]);
        std::swap(each->strides[at - 1], each->strides[at]);
      }
    }
  }
}

}  // namespace

ReductionAxes::ReductionAxes(const TensorView& x, const TensorView& y)
    : kept(without_axes(x)), kept_y(without_axes(y)), reduced(without_axes(x)) {
  for (int axis = 0; axis < x.rank(); ++axis) add(x, y, axis, y.shape[axis] == 1);
  sort();
}

ReductionAxes::ReductionAxes(const TensorView& x, const TensorView& y, int axis)
    : kept(without_axes(x)), kept_y(without_axes(y)), reduced(without_axes(x)) {
  for (int other = 0; other < x.rank(); ++other) add(x, y, other, other == axis);
  sort();
}

void ReductionAxes::add(const TensorView& x, const TensorView& y, int axis, bool reduce) {
  if (x.shape[axis] == 1) return;
  if (reduce) {
    push(reduced, x.shape[axis], x.strides[axis]);
  } else {
    push(kept, x.shape[axis], x.strides[axis]);
    push(kept_y, y.shape[axis], y.strides[axis]);
  }
}

void ReductionAxes::sort() {
  sort_by_stride(kept, &kept_y);
  sort_by_stride(reduced, nullptr);
}

bool ReductionAxes::side_by_side() const {
  if (kept.rank() == 0) return false;
  if (reduced.rank() == 0) return true;
  if (std::abs(kept.strides.back()) < std::abs(reduced.strides.back())) return true;
  constexpr int64_t few = 16, many = 64;
  return reduced.numel() <= few && kept.shape.back() >= many;
}

}  // namespace binade::backend::cpu
