#pragma once

#include "binade/ops/common.h"

// What norms share with the ops that write their result as FP8. Not part of the public interface.
namespace binade::ops {

void check_eps(std::string_view op, double eps);
void check_parameters(std::string_view op, const Tensor& weight, const Tensor& bias, int64_t width);
// A norm of x over its last axis, or of x + residual where there is one.
void check_norm(std::string_view op, const Tensor& x, const Tensor& residual, const Tensor& weight,
                const Tensor& bias, double eps);

// What a norm's backward needs; writes x's gradient to a given buffer and the parameters' to their
// slots.
struct NormBackward {
  backend::NormKind kind;
  Saved x, weight, mean, rstd;

  void operator()(const Tensor& dy, const Tensor& dsum, const Tensor& dx, bool accumulate_dx,
                  const GradSlot& weight_slot, const GradSlot& bias_slot) const;
  // The gradient of a sum whose norm got dy (undefined: none) and which got dsum itself: it reaches
  // both addends alike, and is computed once, in the sum's type.
  Tensor through_sum(const Tensor& dsum, const Tensor& dy, const GradSlot& weight_slot,
                     const GradSlot& bias_slot) const;
};

// The type a fused norm writes for the next op: the autocast type, where neither the residual
// stream nor the policy asks for more.
DType normed_type(Op op, DType stream);

}  // namespace binade::ops
