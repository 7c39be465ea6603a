#pragma once

#include <cstdint>

#include "binade/backend/update_rules.h"

// Updates of n elements, chosen for the CPU they run on.
namespace binade::backend::cpu {

template <class T>
struct UpdateRows {
  const T* gradient;
  T* parameter;
  T* first;   // first moment or momentum; null for SGD without momentum
  T* second;  // second moment; null for rules without one
  T* third;   // see UpdateItem; null for most
};

template <class T>
struct OptimizerRows {
  void (*update)(const RuleStep<T>& step, const UpdateRows<T>& rows, int64_t n);
  // y = x * factor; returns whether all x are finite. y may be x.
  bool (*unscale)(const T* x, T factor, int64_t n, T* y);
};

// T is float or double.
template <class T>
const OptimizerRows<T>& optimizer_rows();

// Parts of a gradient's norm, in f64, in which the square of an f32 cannot overflow.
struct GradientSums {
  double (*square_sum)(const double* x, int64_t n);
  double (*abs_sum)(const double* x, int64_t n);
  // Largest magnitude; unspecified if an element is NaN.
  double (*abs_max)(const double* x, int64_t n);
};

const GradientSums& gradient_sums();

}  // namespace binade::backend::cpu
