#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "binade/amp/recipe/layer_scales.h"
#include "binade/autograd/node.h"
#include "binade/base/function_ref.h"
#include "binade/ops/matmul/linear.h"

// One linear layer under a recipe: what quantized_linear and the fused ops share. Not part of the
// public interface.
namespace binade {

struct QuantizedLayer {
  Tensor weight, bias = {};
  Activation activation = Activation::none;
  const amp::Recipe* recipe;
  std::shared_ptr<amp::LayerScales> scales;  // shared with the module
  amp::LayerFacts facts = {};
};

// Derives the facts of a layer from its recipe and its use, whose device is the weight's.
QuantizedLayer with_facts(QuantizedLayer layer, amp::LayerUse use = {});

}  // namespace binade

namespace binade::ops {

// How one forward runs.
struct LayerForward {
  DType dtype;            // of results
  bool recording;         // a backward is recorded
  bool input_needs_grad;  // by that backward
  // False for the first of two recomputed forwards, so that each amax counts once.
  bool records_amax;
  random::Key key = {};  // of a recipe that draws random numbers
};

// The random numbers of this forward and its backward, if the recipe draws any.
random::Key rounding_key(const QuantizedLayer& layer);

// Whether kernels may quantize what they compute: no trace or observer must see the values.
bool may_fuse(const amp::LayerFacts& facts);

amp::Quantizer input_quantizer(const QuantizedLayer& layer, const LayerForward& forward);

// Quantizes a matrix, which it computes or captures.
using Quantize = std::function<void(const backend::QuantizedOutput&)>;

// Starts a forward of the layer.
void begin(const QuantizedLayer& layer);

// The dtype of a linear's result under this thread's autocast state.
DType linear_dtype(DType input);
// The shape with `size` as its last axis.
Shape with_last_size(Shape shape, int64_t size);
// The buffer for the gradient of an input, as a matrix of shape `flat`; none if it needs no
// gradient.
autograd::GradSlot::Target input_target(const autograd::GradSlot& slot, const Shape& flat);

// The three matmuls of a layer: forward, dgrad and wgrad. Those that the recipe leaves out run in
// the dtype of the result.
class LayerMatmuls {
 public:
  // A matrix as the matmuls read it: quantized, as values, or both.
  struct Matrix {
    Quantized quantized;
    Tensor values = {};
    Quantize again = {};  // of an input: quantizes it in the backward, so that no data is kept
  };

  // Where the forward writes its result: values, or quantized data if the layer stores those.
  struct Result {
    Tensor values = {};
    backend::QuantizedOutput quantized = {};

    Result(const Tensor& values) : values(values) {}                             // NOLINT
    Result(const backend::QuantizedOutput& quantized) : quantized(quantized) {}  // NOLINT
  };

  // Writes y [rows, out] = activation(input weight^T + bias) and saves what the backward reads.
  LayerMatmuls(const QuantizedLayer& layer, const Matrix& input, const LayerForward& forward,
               const Result& y);

  // The backward. `parameters` are the slots of weight and bias. dinput() is called when its memory
  // is needed; it has no buffer if the input needs no gradient.
  void backward(const Tensor& dy, autograd::GradSlots parameters,
                FunctionRef<autograd::GradSlot::Target()> dinput) const;

  // The rest of backward() after `gradient`.
  void backward(const Matrix& gradient, const autograd::GradSlot& weight,
                FunctionRef<autograd::GradSlot::Target()> dinput) const;

  // A part of backward(): the gradient before the activation. Also adds the bias's gradient.
  Matrix gradient(const Tensor& dy, const autograd::GradSlot& bias) const;
  // gradient() where a kernel computes it: `write` its values, of `dtype`, needed only for the
  // bias, or `write_quantized`.
  Matrix gradient(const Shape& shape, DType dtype, const autograd::GradSlot& bias,
                  FunctionRef<void(const Tensor&)> write,
                  FunctionRef<void(const backend::QuantizedOutput&)> write_quantized) const;
  // A gradient whose data is dropped between two uses.
  amp::DroppedQuantized dropped(const Matrix& gradient) const {
    return {(*scales_)[amp::Role::gradient], gradient.quantized};
  }
  void dgrad(const Matrix& gradient, const autograd::GradSlot::Target& dinput) const;
  // `input`, if defined, is the layer's quantized input, which need not be quantized again then.
  void wgrad(const Matrix& gradient, const autograd::GradSlot& weight,
             const Quantized& input = {}) const;
  // Whether wgrad quantizes the input again, and its data by a kernel that computes more than that.
  bool requantizes_input() const { return static_cast<bool>(wgrad_input_.again); }
  Quantized input_again(FunctionRef<void(const backend::QuantizedOutput&)> write) const {
    return wgrad_input_.dropped.restored(write);
  }

 private:
  // A quantized matrix that a backward matmul reads.
  struct Operand {
    Quantized kept;
    amp::DroppedQuantized dropped = {};
    Quantize again = {};  // empty if the data is kept

    Quantized get() const { return again ? dropped.restored(again) : kept; }
  };

  void save(const QuantizedLayer& layer, const Matrix& input, const Quantized& weight);
  void save_for_dgrad(const QuantizedLayer& layer, const Quantized& weight);
  amp::Quantizer gradient_quantizer() const;
  // Of an operand of wgrad, read along its columns.
  amp::Quantizer column_quantizer(amp::Role role) const;
  Matrix quantized(const Tensor& gradient) const;

  amp::Recipe recipe_;
  amp::LayerFacts facts_;
  std::shared_ptr<amp::LayerScales> scales_;
  Activation activation_;
  LayerForward forward_;
  bool tf32_;  // for matmuls that run in f32
  autograd::Saved pre_activation_;
  Operand wgrad_input_, dgrad_weight_;                  // for quantized matmuls
  autograd::Saved wgrad_values_, dgrad_weight_values_;  // for the others
  autograd::Saved weight_;  // unchanged as long as the scales of this step hold
};

// The forward of a layer and its result [rows, out]: of one that stores it quantized, the values
// that its data stand for, or the data alone.
std::pair<LayerMatmuls, Tensor> values_forward(const QuantizedLayer& layer,
                                               const LayerMatmuls::Matrix& input,
                                               const LayerForward& forward);
std::pair<LayerMatmuls, Quantized> stored_forward(const QuantizedLayer& layer,
                                                  const LayerMatmuls::Matrix& input,
                                                  const LayerForward& forward);

// The input x of a layer, with its values as a matrix.
LayerMatmuls::Matrix quantized_input(const QuantizedLayer& layer, const LayerForward& forward,
                                     const Tensor& x, const Tensor& values);

}  // namespace binade::ops
