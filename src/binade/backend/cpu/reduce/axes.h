#pragma once

#include "binade/tensor/tensor.h"

namespace binade::backend::cpu {

// x split into kept and reduced axes, each sorted by descending stride of x, without axes of
// size 1. Results are computed in the order of `kept` and written through `kept_y`.
struct ReductionAxes {
  // Reduces over every axis along which y has size 1 and x does not.
  ReductionAxes(const TensorView& x, const TensorView& y);
  // Reduces over one axis; y has x's size or 1 along it.
  ReductionAxes(const TensorView& x, const TensorView& y, int axis);

  // Whether to compute results side by side: if neighbors in memory belong to different results, or
  // if a result has few elements.
  bool side_by_side() const;

  TensorView kept;     // of x
  TensorView kept_y;   // the same axes of y
  TensorView reduced;  // of x

 private:
  void add(const TensorView& x, const TensorView& y, int axis, bool reduce);
  void sort();
};

// The entries of ReduceKernels in which the order along an axis matters.
void arg(bool largest, TensorView x, int axis, TensorView y);
void cumsum(TensorView x, int axis, bool reverse, TensorView y);

}  // namespace binade::backend::cpu
