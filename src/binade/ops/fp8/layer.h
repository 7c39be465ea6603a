#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "binade/amp/fp8_quantizer.h"
#include "binade/autograd/node.h"
#include "binade/base/function_ref.h"
#include "binade/ops/matmul/linear.h"

// One linear layer under an FP8 recipe: what fp8_linear and the fused FP8 ops share. Not part of
// the public interface.
namespace binade {

struct Fp8Layer {
  Tensor weight, bias = {};
  Activation activation = Activation::none;
  const amp::Fp8Recipe* recipe;
  std::shared_ptr<amp::Fp8LinearState> state;  // shared with the module
  // Delayed recipes: the quantized weight, and inputs whose values are kept anyway, are quantized
  // again in the backward instead of kept. On GPUs norms' results always are.
  bool requantizes = false;
  // SwiGLU alone reads the result, so that recipes may store it in FP8.
  bool is_hidden = false;
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

// Quantizes a matrix, which it computes or captures.
using Quantize = std::function<void(const backend::QuantizedOutput&)>;

// Whether the layer's recipe lets it do without kept data; see Fp8Layer::requantizes.
bool requantizes(const Fp8Layer& layer);

// Whether the layer's result is stored in FP8.
bool stores_result(const Fp8Layer& layer);
// Starts a forward of the layer.
void begin(const Fp8Layer& layer);

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
    Quantize again = {};  // of an input: quantizes it in the backward, so that no data is kept
  };

  // Where the forward writes its result: values, or FP8 data if the layer stores those.
  struct Result {
    Tensor values = {};
    backend::QuantizedOutput quantized = {};

    Result(const Tensor& values) : values(values) {}                             // NOLINT
    Result(const backend::QuantizedOutput& quantized) : quantized(quantized) {}  // NOLINT
  };

  // Writes y [rows, out] = activation(input weight^T + bias) and saves what the backward reads.
  Fp8LayerMatmuls(const Fp8Layer& layer, const Matrix& input, const Fp8Forward& forward,
                  const Result& y);

  // The backward. `parameters` are the slots of weight and bias. dinput() is called when its memory
  // is needed; it has no buffer if the input needs no gradient.
  void backward(const Tensor& dy, autograd::GradSlots parameters,
                FunctionRef<autograd::GradSlot::Target()> dinput) const;

  // The rest of it after `gradient`.
  void backward(const Matrix& gradient, const autograd::GradSlot& weight,
                FunctionRef<autograd::GradSlot::Target()> dinput) const;

  // Its parts. The gradient before the activation; also adds the bias's gradient.
  Matrix gradient(const Tensor& dy, const autograd::GradSlot& bias) const;
  // The same for a gradient that a kernel computes: `write` its values, of `dtype`, needed only for
  // the bias, or `write_quantized`.
  Matrix gradient(const Shape& shape, DType dtype, const autograd::GradSlot& bias,
                  FunctionRef<void(const Tensor&)> write,
                  FunctionRef<void(const backend::QuantizedOutput&)> write_quantized) const;
  // A gradient whose data is dropped between two uses.
  amp::DroppedQuantized dropped(const Matrix& gradient) const {
    return {gradient_quantizer(), gradient.quantized};
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

  void save(const Fp8Layer& layer, const Matrix& input, const Quantized& weight);
  void save_for_dgrad(const Fp8Layer& layer, const Quantized& weight);
  amp::Fp8Quantizer gradient_quantizer() const;
  Matrix quantized(const Tensor& gradient) const;

  amp::Fp8Recipe recipe_;
  std::shared_ptr<amp::Fp8LinearState> state_;
  Activation activation_;
  Fp8Forward forward_;
  bool tf32_;  // for matmuls that run in f32
  autograd::Saved pre_activation_;
  Operand wgrad_input_, dgrad_weight_;                  // for matmuls in FP8
  autograd::Saved wgrad_values_, dgrad_weight_values_;  // for the others
  autograd::Saved weight_;  // unchanged as long as the scales of this step hold
};

// The forward of a layer and its result [rows, out]: of one that stores it in FP8, the values that
// its data stand for, or the data alone.
std::pair<Fp8LayerMatmuls, Tensor> values_forward(const Fp8Layer& layer,
                                                  const Fp8LayerMatmuls::Matrix& input,
                                                  const Fp8Forward& forward);
std::pair<Fp8LayerMatmuls, Quantized> stored_forward(const Fp8Layer& layer,
                                                     const Fp8LayerMatmuls::Matrix& input,
                                                     const Fp8Forward& forward);

// The input x of a layer, with its values as a matrix.
Fp8LayerMatmuls::Matrix quantized_input(const Fp8Layer& layer, const Fp8Forward& forward,
                                        const Tensor& x, const Tensor& values);

}  // namespace binade::ops
