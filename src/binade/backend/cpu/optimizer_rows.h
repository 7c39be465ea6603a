#pragma once

#include <cstdint>

// What optimizers do with n elements. Each function is chosen for the CPU at hand.
namespace binade::backend::cpu {

// One Adam step with every scalar worked out beforehand, in f64.
template <class T>
struct AdamStep {
  T gradient_factor;
  T keep;           // multiplies the parameter first: 1 - lr * weight decay if decoupled, else 1
  T decay;          // joins the gradient, times the parameter, if not decoupled, else 0
  T beta1, fresh1;  // fresh = 1 - beta
  T beta2, fresh2;
  T root_correction2;  // sqrt(1 - beta2^t)
  T eps;
  T step_size;  // lr / (1 - beta1^t)
};

template <class T>
struct SgdStep {
  T gradient_factor;
  T decay;
  T momentum, fresh;  // fresh = 1 - dampening
  T lr;
  bool nesterov;
  bool first;  // momentum starts as the gradient, whatever it holds
};

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
