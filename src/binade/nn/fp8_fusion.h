#pragma once

#include <optional>
#include <utility>

#include "binade/nn/transformer.h"
#include "binade/ops/fp8/fused.h"

// Fused FP8 ops across modules: under a delayed recipe a norm or SwiGLU writes the FP8 input of the
// linear after it. Not part of the public interface.
namespace binade::nn {

struct Fp8Fusion {
  using SumAndResult = std::pair<Tensor, Tensor>;

  // The layer for a fused op; none if it runs without FP8 or cannot be fused.
  static std::optional<Fp8Layer> layer(const Linear& linear);

  // The norm of x, and of x + residual, for a fused op; none if no fused op can replace it.
  static std::optional<Fp8Norm> norm(const RowNorm& norm, const Tensor& x);
  static std::optional<Fp8Norm> residual_norm(const RowNorm& norm, const Tensor& x,
                                              const Tensor& residual);

  // {sum, module(norm of sum)}; none if the module cannot be fused with the norm.
  static std::optional<SumAndResult> after_norm(const Fp8Norm& norm, MultiheadAttention& attention);
  static std::optional<SumAndResult> after_norm(const Fp8Norm& norm, MLP& mlp);
};

}  // namespace binade::nn
