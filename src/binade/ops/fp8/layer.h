#pragma once

#include <memory>

#include "binade/amp/fp8_quantizer.h"
#include "binade/autograd/node.h"
#include "binade/ops/matmul/linear.h"

// One linear layer under an FP8 recipe: what fp8_linear and the fused FP8 ops share. Not part of
// the public interface.
namespace binade {

struct Fp8Layer {
  Tensor weight, bias = {};
  Activation activation = Activation::none;
  const amp::Fp8Recipe* recipe;
  std::shared_ptr<amp::Fp8LinearState> state;  // shared with the module
};

}  // namespace binade

namespace binade::ops {

// How one forward runs.
struct Fp8Forward {
  DType dtype;            // of results
  bool recording;         // a backward is recorded
  bool input_needs_grad;  // by that backward
  // False for the first of two recomputed forwards, so that each amax counts once.
  bool records_amax;
};

amp::Fp8Quantizer input_quantizer(const Fp8Layer& layer, const Fp8Forward& forward);

// The dtype of a linear's result under this thread's autocast state.
DType linear_dtype(DType input);
// The shape with `size` as its last axis.
Shape with_last_size(Shape shape, int64_t size);
// The buffer for the gradient of an input, as a matrix of shape `flat`; none if it needs no
// gradient.
autograd::GradSlot::Target input_target(const autograd::GradSlot& slot, const Shape& flat);

// The three matmuls of a layer: forward, dgrad and wgrad. Those that the recipe leaves out run in
// the dtype of the result.
class Fp8LayerMatmuls {
 public:
  // A matrix as the matmuls read it: quantized, as values, or both.
  struct Matrix {
    Quantized quantized;
    Tensor values = {};
  };

  // Writes y [rows, out] = activation(input weight^T + bias) and saves what the backward reads.
  Fp8LayerMatmuls(const Fp8Layer& layer, const Matrix& input, const Fp8Forward& forward,
                  const Tensor& y);

  // The backward. `parameters` are the slots of weight and bias; `dinput` has no buffer if the
  // input needs no gradient.
  void backward(const Tensor& dy, autograd::GradSlots parameters,
                const autograd::GradSlot::Target& dinput) const;

  // Its parts. The gradient before the activation; also adds the bias's gradient.
  Matrix gradient(const Tensor& dy, const autograd::GradSlot& bias) const;
  // The same for a gradient of hidden's shape and dtype that a kernel computes: `write` its values,
  // needed only for the bias, or `write_quantized`.
  Matrix gradient(const Tensor& hidden, const autograd::GradSlot& bias,
                  FunctionRef<void(const Tensor&)> write,
                  FunctionRef<void(const backend::QuantizedOutput&)> write_quantized) const;
  void dgrad(const Matrix& gradient, const autograd::GradSlot::Target& dinput) const;
  void wgrad(const Matrix& gradient, const autograd::GradSlot& weight) const;

 private:
  void save(const Fp8Layer& layer, const Matrix& input);
  amp::Fp8Quantizer gradient_quantizer() const;
  Matrix quantized(const Tensor& gradient) const;

  amp::Fp8Recipe recipe_;
  std::shared_ptr<amp::Fp8LinearState> state_;
  Activation activation_;
  Fp8Forward forward_;
  bool tf32_;  // for matmuls that run in f32
  autograd::Saved pre_activation_;
  Quantized wgrad_input_, dgrad_weight_;                // for matmuls in FP8
  autograd::Saved wgrad_values_, dgrad_weight_values_;  // for the others
};

}  // namespace binade::ops
