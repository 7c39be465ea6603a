#pragma once

#include "binade/tensor/tensor.h"

namespace binade::backend::cpu {

// x cut into the axes that stay and those that go, each sorted by descending stride of x (axes of
// size 1 are gone). Results are computed in the order of `kept` and written through `kept_y`.
struct ReductionAxes {
  // Reduces over every axis where y has size 1 and x has not.
  ReductionAxes(const TensorView& x, const TensorView& y);
  // Reduces over one axis; y has x's size or 1 there.
  ReductionAxes(const TensorView& x, const TensorView& y, int axis);

  // Whether neighbours in memory belong to different results, so that these are best computed side
  // by side. Where few elements make one result, side by side is better anyway.
  bool side_by_side() const;

  TensorView kept;     // of x
  TensorView kept_y;   // the same axes of y
  TensorView reduced;  // of x

 private:
  void add(const TensorView& x, const TensorView& y, int axis, bool reduce);
  void sort();
};

// y along one axis as a reduction's result: index and running-sum kernels.
void arg(bool largest, TensorView x, int axis, TensorView y);
void cumsum(TensorView x, int axis, bool reverse, TensorView y);

}  // namespace binade::backend::cpu
