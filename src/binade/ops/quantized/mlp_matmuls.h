#pragma once

#include <utility>

#include "binade/backend/quantize.h"
#include "binade/ops/common.h"
#include "binade/ops/quantized/layer.h"

// The matmuls of an MLP with SwiGLU with delayed scales. Not part of the public interface.
namespace binade::ops {

// SwiGLU's input: values, or quantized data that stand for values of `dtype`.
struct Hidden {
  Saved data;
  Saved scale_inv = {};  // of quantized data
  DType dtype = DType::f32;

  backend::StoredMatrix stored() const;
  Tensor values() const;
};

// Two layers around swiglu.
class MlpMatmuls {
 public:
  // {the matmuls, down(swiglu(up(input)))}.
  static std::pair<MlpMatmuls, Tensor> forward(const QuantizedLayer& up, const QuantizedLayer& down,
                                               const LayerMatmuls::Matrix& input,
                                               const LayerForward& forward);

  // `parameters`: the slots of up's weight and bias, then of down's. dinput() as in
  // LayerMatmuls::backward.
  void backward(const Tensor& dy, GradSlots parameters,
                FunctionRef<GradSlot::Target()> dinput) const;

 private:
  MlpMatmuls(const LayerMatmuls& up, const LayerMatmuls& down, const Hidden& hidden,
             bool up_has_backward)
      : up_(up), down_(down), hidden_(hidden), up_has_backward_(up_has_backward) {}

  // Whether the fastest order of the backward would take more memory than was ever taken: so in the
  // last block of a model, whose backward runs while all activations are there. Then `dy` and
  // `gated` are quantized again later, by passes of their own.
  bool sets_peak() const;
  // The gradient before up's matmuls. The pass that computes it also quantizes `gated`, the input
  // of `down`, if that is wanted and no values of the gradient are.
  LayerMatmuls::Matrix hidden_gradient(const Tensor& dgated, const GradSlot& bias,
                                       Quantized* gated) const;

  LayerMatmuls up_, down_;
  Hidden hidden_;  // undefined if nothing before `down` needs a gradient
  bool up_has_backward_;
};

}  // namespace binade::ops
