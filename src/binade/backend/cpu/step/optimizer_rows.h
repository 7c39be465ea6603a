#pragma once

#include <cstdint>

#include "binade/backend/optimizer_step.h"

// What optimizers do with n elements. Each function is chosen for the CPU at hand.
namespace binade::backend::cpu {

template <class T>
struct OptimizerRows {
  void (*adam)(const AdamStep<T>& step, const T* gradient, int64_t n, T* parameter, T* first,
               T* second);
  // `momentum` may be null: plain descent.
  void (*sgd)(const SgdStep<T>& step, const T* gradient, int64_t n, T* parameter, T* momentum);
  // y = x * factor; returns whether all x are finite. y may be x.
  bool (*unscale)(const T* x, T factor, int64_t n, T* y);
};

// Those for T, float or double.
template <class T>
const OptimizerRows<T>& optimizer_rows();

// Parts of a gradient's norm, in f64, where no square of an f32 overflows.
struct GradientSums {
  double (*square_sum)(const double* x, int64_t n);
  double (*abs_sum)(const double* x, int64_t n);
  // Largest magnitude; with a NaN among them it may be any.
  double (*abs_max)(const double* x, int64_t n);
};

const GradientSums& gradient_sums();

}  // namespace binade::backend::cpu
