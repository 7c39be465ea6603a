#pragma once

#include "binade/ops/common.h"

// Shared by norms and the ops that write a norm's result quantized. Not part of the public
// interface.
namespace binade::ops {

void check_eps(std::string_view op, double eps);
void check_parameters(std::string_view op, const Tensor& weight, const Tensor& bias, int64_t width);

// The arguments of a norm of x, or of x + residual, over the last axis.
struct NormArguments {
  backend::NormKind kind;
  Tensor x;
  Tensor residual = {};
  Tensor weight = {};
  Tensor bias = {};
  double eps;
};
void check_norm(std::string_view op, const NormArguments& args);

// The saved tensors of a norm's backward.
struct NormGradient {
  backend::NormKind kind;
  Saved x, weight, mean, rstd;

  // Writes x's gradient, dsum included (optional), and the gradients of the parameters. `dx_sums`
  // (optional) [width] receives the sums over dx's rows.
  void run(const Tensor& dy, const Tensor& dsum, const backend::Target& dx, const GradSlot& dweight,
           const GradSlot& dbias, const Tensor& dx_sums = {}) const;
  // The gradient of a sum: dy (undefined: none) reached its norm and dsum the sum itself. Both
  // addends have this gradient; it is computed once, in the sum's type. `addend` is the slot of the
  // first, whose op may need the gradient's sums.
  Tensor through_sum(const Tensor& dsum, const Tensor& dy, const GradSlot& dweight,
                     const GradSlot& dbias, const GradSlot& addend) const;
};

// The type a fused norm writes for the next op: the autocast type, unless the residual stream or
// the policy needs a wider one.
DType normed_type(Op op, DType stream);

}  // namespace binade::ops
