#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "binade/amp/fp8.h"
#include "binade/backend/norm.h"
#include "binade/ops/linear.h"

// Linears under delayed FP8 recipes together with what makes their inputs, which is written as FP8
// codes alone. Each is bit for bit the ops it stands for, with the same notes in the layers'
// states. Not for f64. Nobody may watch: see amp::can_fuse_quantize.
namespace binade {

// A linear whose products all run in FP8.
struct Fp8Layer {
  Tensor weight, bias;
  const amp::Fp8Recipe* recipe;
  std::shared_ptr<amp::Fp8Linear> state;
  Activation activation = Activation::none;
};

// A norm over the last axis of x, or of x + residual where there is one, its result rounded to
// `type`.
struct Fp8Norm {
  backend::NormKind kind;
  Tensor x, residual, weight, bias;
  double eps;
  DType type;
};

// down(swiglu(up(x))).
Tensor fp8_swiglu_mlp(const Tensor& x, const Fp8Layer& up, const Fp8Layer& down);
// The sum that was normalized (x itself without a residual), and layer(norm) or
// down(swiglu(up(norm))) of it.
std::pair<Tensor, Tensor> fp8_norm_linear(const Fp8Norm& norm, const Fp8Layer& layer);
std::pair<Tensor, Tensor> fp8_norm_swiglu_mlp(const Fp8Norm& norm, const Fp8Layer& up,
                                              const Fp8Layer& down);

// Whether autocast leaves swiglu of x's type as it is, in the module running now: only then may the
// ops above stand for it.
bool swiglu_keeps_type(const Tensor& x);

// What stands for residual_layer_norm or residual_rms_norm of x in the module running now, and for
// layer_norm or rms_norm; nothing where those change types in ways that the ops above do not.
std::optional<Fp8Norm> fp8_residual_norm(backend::NormKind kind, const Tensor& x,
                                         const Tensor& residual, const Tensor& weight,
                                         const Tensor& bias, double eps);
std::optional<Fp8Norm> fp8_norm(backend::NormKind kind, const Tensor& x, const Tensor& weight,
                                const Tensor& bias, double eps);

}  // namespace binade
