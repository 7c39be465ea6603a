#pragma once

#include <optional>
#include <utility>

#include "binade/backend/norm.h"
#include "binade/ops/quantized/layer.h"

// Linears with delayed scales fused with the op that computes their input: that producer writes the
// quantized input, whose values are never stored. Each is bit for bit the ops it replaces, and
// leaves the same scales and histories. Not for f64, and only if ops::may_fuse. Not part of the
// public interface.
namespace binade {

// A norm over the last axis of x, or of x + residual if there is one, with its result rounded to
// `dtype`.
struct FusedNorm {
  backend::NormKind kind;
  Tensor x, residual, weight, bias;
  double eps;
  DType dtype;
};

// A rotary embedding of the first `rotated` heads of `dim` elements.
struct FusedRope {
  Tensor cosine, sine;
  int64_t dim, rotated;
};

// down(swiglu(up(x))).
Tensor quantized_swiglu_mlp(const Tensor& x, const QuantizedLayer& up, const QuantizedLayer& down);
// {sum, layer(norm of sum)}: the sum is x itself without a residual.
std::pair<Tensor, Tensor> quantized_norm_linear(const FusedNorm& norm, const QuantizedLayer& layer);
// {sum, rope_(layer(norm of sum))}, where x [batch, tokens, width] and the layer has no activation.
std::pair<Tensor, Tensor> quantized_norm_linear_rope(const FusedNorm& norm,
                                                     const QuantizedLayer& layer,
                                                     const FusedRope& rope);
// {sum, down(swiglu(up(norm of sum)))}.
std::pair<Tensor, Tensor> quantized_norm_swiglu_mlp(const FusedNorm& norm, const QuantizedLayer& up,
                                                    const QuantizedLayer& down);

// Whether autocast keeps the type of `op` of a layer's result in the current module, where x is the
// layer's input: only then can the ops above replace it.
bool keeps_type(Op op, const Tensor& x);

// The norm that the ops above fuse in place of residual_layer_norm or residual_rms_norm, and of
// layer_norm or rms_norm, in the current module; none if those convert types in a way that the
// fused ops do not.
std::optional<FusedNorm> fused_residual_norm(backend::NormKind kind, const Tensor& x,
                                             const Tensor& residual, const Tensor& weight,
                                             const Tensor& bias, double eps);
std::optional<FusedNorm> fused_norm(backend::NormKind kind, const Tensor& x, const Tensor& weight,
                                    const Tensor& bias, double eps);

}  // namespace binade
