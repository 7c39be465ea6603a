#include "binade/ops/fp8_fused.h"

#include "binade/autograd/grad_mode.h"
#include "binade/ops/fp8_products.h"
#include "binade/ops/norm_common.h"

namespace binade {
namespace {

using namespace ops;
using amp::Fp8Role;
using backend::NormKind;

void check_layer(const char* argument, const Fp8Layer& layer, int64_t in) {
  require_rank("fp8_linear", argument, layer.weight, 2);
  if (layer.weight.size(1) != in) {
    fail("fp8_linear", {.argument = argument,
                        .expected = "[out, " + std::to_string(in) + "]",
                        .found = describe(layer.weight)});
  }
  if (layer.bias.defined())
    require_shape("fp8_linear", argument, layer.bias, {layer.weight.size(0)});
}

bool trains(const Fp8Layer& layer) {
  return layer.weight.requires_grad() || (layer.bias.defined() && layer.bias.requires_grad());
}

// The products of one layer: the forward's at once, the backward's from what it keeps.
class Products {
 public:
  // y [rows, out] = activation(input weight^T + bias). `recording`: a backward follows, and `dgrad`
  // that it wants the input's gradient.
  Products(const Fp8Layer& layer, const Quantized& input, bool recording, bool dgrad,
           const Tensor& y)
      : recipe_(*layer.recipe), state_(layer.state), activation_(layer.activation) {
    const bool keeps = recording && layer.activation != Activation::none;
    const Tensor pre = keeps ? Tensor::empty_like(y) : Tensor();
    multiply(operand(input), transposed(operand(state_->weight_rows(recipe_, layer.weight))), y,
             false,
             {.bias = layer.bias,
              .activation = layer.activation,
              .pre_activation = keeps ? TensorView(batch_of_one(pre)) : TensorView(),
              .fast_accumulation = recipe_.fast_accumulation});
    pre_ = Saved(pre);
    if (recording && layer.weight.requires_grad()) input_ = kept_for_wgrad(input);
    if (dgrad) weight_ = state_->weight_columns(recipe_, layer.weight);
  }

  // The codes of a gradient that `values` makes in memory, or `codes` as codes. Values are needed
  // only where a bias wants their sums.
  Quantized gradient(const Shape& shape, const GradSlot& bias, const Tensor& like,
                     FunctionRef<void(const Tensor&)> values,
                     FunctionRef<void(const backend::Codes&)> codes) const {
    if (!bias.needs_grad()) {
      return amp::quantize_fused(recipe_, Fp8Role::gradient, shape, like.device(), state_->gradient,
                                 true, codes);
    }
    const Tensor made = Tensor::empty(shape, like.dtype(), like.device());
    values(made);
    return gradient(made, bias);
  }
  Quantized gradient(const Tensor& dy, const GradSlot& bias) const {
    add_reduced(bias, dy);
    return amp::quantize_by(recipe_, Fp8Role::gradient, dy, state_->gradient, true);
  }
  // The same of what came before the layer's activation.
  Quantized pre_gradient(const Tensor& dy, const GradSlot& bias) const {
    if (activation_ == Activation::none) return gradient(dy, bias);
    if (bias.needs_grad()) {
      return amp::quantize_by(recipe_, Fp8Role::gradient,
                              activation_gradient(activation_, dy, pre_, bias), state_->gradient,
                              true);
    }
    return amp::quantize_fused(recipe_, Fp8Role::gradient, dy.shape(), dy.device(),
                               state_->gradient, true, [&](const backend::Codes& codes) {
                                 backend::of(dy).quantize.quantize_activation_backward(
                                     activation_, dy, pre_, codes);
                               });
  }

  void dgrad(const Quantized& gradient, const GradSlot::Target& target) const {
    multiply(operand(gradient), operand_along_rows(weight_), target.buffer, target.accumulate);
  }
  void wgrad(const Quantized& gradient, const GradSlot& slot) const {
    if (!slot.needs_grad()) return;
    const auto [buffer, accumulate] = slot.target();
    multiply(transposed(operand_along_rows(gradient)), operand_along_rows(input_), buffer,
             accumulate);
  }

 private:
  amp::Fp8Recipe recipe_;
  std::shared_ptr<amp::Fp8Linear> state_;
  Activation activation_;
  Saved pre_;
  Quantized input_;   // for wgrad
  Quantized weight_;  // for dgrad
};

// What follows an input's codes: one layer, or two around swiglu. `parameters` are its slots.
struct LinearPart {
  Products products;

  void backward(const Tensor& dy, GradSlots parameters, const GradSlot::Target& dinput) const {
    const Quantized gradient = products.pre_gradient(dy, parameters[1]);
    if (dinput.buffer.defined()) products.dgrad(gradient, dinput);
    products.wgrad(gradient, parameters[0]);
  }
};

struct MlpPart {
  Products up, down;
  Saved hidden;
  bool below;  // whether anything before `down` wants a gradient

  void backward(const Tensor& dy, GradSlots parameters, const GradSlot::Target& dinput) const {
    Tensor dgated;
    {
      const Quantized gradient = down.gradient(dy, parameters[3]);
      down.wgrad(gradient, parameters[2]);
      if (!below) return;
      dgated = Tensor::empty({dy.size(0), hidden->size(1) / 2}, hidden->dtype(), dy.device());
      down.dgrad(gradient, {dgated, false});
    }
    const auto& kernels = backend::of(dy);
    const Quantized gradient = up.gradient(
        hidden->shape(), parameters[1], hidden,
        [&](const Tensor& made) { kernels.activation.swiglu_backward(dgated, hidden, made); },
        [&](const backend::Codes& codes) {
          kernels.quantize.quantize_swiglu_backward(dgated, hidden, codes);
        });
    dgated = {};
    if (dinput.buffer.defined()) up.dgrad(gradient, dinput);
    up.wgrad(gradient, parameters[0]);
  }
};

// Where a part's forward stands.
struct Setting {
  DType type;         // of results
  bool recording;     // a backward follows
  bool dinput;        // which wants the input's gradient
  bool records_amax;  // of a recomputed pair of forwards only the second: each amax counts once
};

std::pair<LinearPart, Tensor> linear_part(const Fp8Layer& layer, const Quantized& input,
                                          const Setting& s) {
  const Tensor y =
      Tensor::empty({input.data.size(0), layer.weight.size(0)}, s.type, input.data.device());
  return {LinearPart{Products(layer, input, s.recording, s.dinput, y)}, y};
}

std::pair<MlpPart, Tensor> mlp_part(const Fp8Layer& up, const Fp8Layer& down,
                                    const Quantized& input, const Setting& s) {
  const Device device = input.data.device();
  const int64_t rows = input.data.size(0), width = down.weight.size(1);
  const Tensor hidden = Tensor::empty({rows, 2 * width}, s.type, device);
  const Products first(up, input, s.recording, s.dinput, hidden);
  const Quantized gated =
      amp::quantize_fused(*down.recipe, Fp8Role::activation, {rows, width}, device,
                          down.state->input, s.records_amax, [&](const backend::Codes& codes) {
                            backend::of(hidden).quantize.quantize_swiglu(hidden, codes);
                          });
  const Tensor y = Tensor::empty({rows, down.weight.size(0)}, s.type, device);
  const bool below = s.recording && (s.dinput || trains(up));
  const Products second(down, gated, s.recording, below, y);
  return {MlpPart{first, second, below ? hidden : Tensor(), below}, y};
}

void check_mlp(const Fp8Layer& up, const Fp8Layer& down, int64_t in) {
  require_rank("fp8_linear", "down", down.weight, 2);
  check_layer("up", up, in);
  check_layer("down", down, down.weight.size(1));
  if (up.weight.size(0) != 2 * down.weight.size(1)) {
    fail("fp8_linear",
         {.argument = "up",
          .expected = std::to_string(2 * down.weight.size(1)) + " outputs (gate, then up)",
          .found = describe(up.weight)});
  }
}

// The type of a linear's result by autocast, for an input of `given`.
DType product_type(DType given) {
  const amp::AutocastState& state = amp::autocast_state();
  return state.enabled ? state.dtype : given;
}

Shape with_last(Shape shape, int64_t size) {
  shape[shape.rank() - 1] = size;
  return shape;
}

// Whether it is worth asking further, and x can be asked: what is wrong with it the plain ops say.
bool may_fuse(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const auto double_precision = [](const Tensor& parameter) {
    return parameter.defined() && parameter.dtype() == DType::f64;
  };
  return amp::fp8_state().enabled && x.defined() && x.rank() > 0 && !double_precision(weight) &&
         !double_precision(bias);
}

// make(input's codes, setting) is the part after the norm, `first` its first layer; `parameters`
// are those of its layers, weight and bias by turns.
template <class Make>
std::pair<Tensor, Tensor> after_norm(const Fp8Norm& norm, const Fp8Layer& first,
                                     std::initializer_list<Tensor> parameters, Make make) {
  check_norm("fp8_norm_linear", norm.x, norm.residual, norm.weight, norm.bias, norm.eps);
  const DType type = product_type(norm.type);
  const amp::Autocast as_given(amp::AutocastState{});  // FP8 is made from the values as they are
  std::vector<Tensor> inputs = {norm.x, norm.weight, norm.bias, norm.residual};
  inputs.insert(inputs.end(), parameters);
  const Call call(Op::linear, inputs);
  const auto [rows, width] = rows_of(norm.x.shape());
  const Shape flat{rows, width};
  const Device device = norm.x.device();
  const bool adds = norm.residual.defined();
  const Tensor in = viewed(dense(norm.x), flat);
  const Tensor sum = adds ? Tensor::empty(flat, norm.residual.dtype(), device) : in;
  const Tensor mean =
      norm.kind == NormKind::layer ? Tensor::empty({rows}, DType::f32, device) : Tensor();
  const Tensor rstd = Tensor::empty({rows}, DType::f32, device);
  const Tensor scale = dense(norm.weight), shift = dense(norm.bias);
  const auto& kernels = backend::of(in);
  kernels.norm.forward(norm.kind, in, adds ? viewed(dense(norm.residual), flat) : Tensor(), scale,
                       shift, norm.eps, adds ? sum : Tensor(), {}, mean, rstd);

  const bool records_amax = autograd::grad_enabled();
  const bool dinput = autograd::recording(std::span(inputs).first(4));
  const Quantized codes = amp::quantize_fused(
      *first.recipe, Fp8Role::activation, flat, device, first.state->input, records_amax,
      [&](const backend::Codes& to) {
        kernels.quantize.quantize_norm(sum, scale, shift, mean, rstd, norm.type, to);
      });
  const auto [part, y] = make(codes, Setting{type, call.recording(), dinput, records_amax});
  const Tensor outputs[2] = {viewed(sum, norm.x.shape()),
                             viewed(y, with_last(norm.x.shape(), y.size(1)))};
  const NormBackward backward{norm.kind, sum, scale, mean, rstd};
  call.results(outputs,
               [part = part, backward, dinput, flat, full = norm.x.shape(), normed = norm.type,
                out = y.size(1)](std::span<const Tensor> dy, GradSlots dx) {
                 Tensor dnormed;
                 if (dy[1].defined()) {
                   if (dinput) dnormed = Tensor::empty(full, normed, dy[1].device());
                   part.backward(viewed(dense(dy[1]), {flat[0], out}), dx.subspan(4),
                                 {dinput ? viewed(dnormed, flat) : Tensor(), false});
                 }
                 if (!dinput) return;
                 const Tensor gradient = backward.through_sum(dy[0], dnormed, dx[1], dx[2]);
                 dx[0].add(gradient);
                 dx[3].add(gradient);
               });
  return {outputs[0], outputs[1]};
}

}  // namespace

Tensor fp8_swiglu_mlp(const Tensor& x, const Fp8Layer& up, const Fp8Layer& down) {
  require_compute("fp8_linear", "x", x);
  check_mlp(up, down, x.rank() == 0 ? 0 : x.size(-1));
  const DType type = product_type(x.dtype());
  const amp::Autocast as_given(amp::AutocastState{});
  const Call call(Op::linear, {x, up.weight, up.bias, down.weight, down.bias});
  const auto [rows, in] = rows_of(x.shape());
  for (const Fp8Layer* layer : {&up, &down}) layer->state->begin(*layer->recipe, layer->weight);
  const Setting setting{type, call.recording(), call.recording() && x.requires_grad(),
                        autograd::grad_enabled()};
  const Quantized codes =
      amp::quantize_by(*up.recipe, Fp8Role::activation, viewed(dense(x), {rows, in}),
                       up.state->input, setting.records_amax);
  const auto [part, y] = mlp_part(up, down, codes, setting);
  return call.result(
      viewed(y, with_last(x.shape(), y.size(1))),
      [part = part, flat = Shape{rows, in}, out = y.size(1)](const Tensor& dy, GradSlots dx) {
        GradSlot::Target target{{}, false};
        if (dx[0].needs_grad()) {
          target = dx[0].target();
          target.buffer = viewed(target.buffer, flat);
        }
        part.backward(viewed(dense(dy), {flat[0], out}), dx.subspan(1), target);
      });
}

std::pair<Tensor, Tensor> fp8_norm_linear(const Fp8Norm& norm, const Fp8Layer& layer) {
  check_layer("weight", layer, norm.x.size(-1));
  layer.state->begin(*layer.recipe, layer.weight);
  return after_norm(norm, layer, {layer.weight, layer.bias},
                    [&](const Quantized& codes, const Setting& setting) {
                      return linear_part(layer, codes, setting);
                    });
}

std::pair<Tensor, Tensor> fp8_norm_swiglu_mlp(const Fp8Norm& norm, const Fp8Layer& up,
                                              const Fp8Layer& down) {
  check_mlp(up, down, norm.x.size(-1));
  for (const Fp8Layer* layer : {&up, &down}) layer->state->begin(*layer->recipe, layer->weight);
  return after_norm(norm, up, {up.weight, up.bias, down.weight, down.bias},
                    [&](const Quantized& codes, const Setting& setting) {
                      return mlp_part(up, down, codes, setting);
                    });
}

bool swiglu_keeps_type(const Tensor& x) {
  if (x.defined() && x.dtype() == DType::f64) return false;
  if (!amp::autocast_state().enabled) return true;
  const CastClass cast = amp::class_of(Op::swiglu);
  return cast == CastClass::as_is || cast == CastClass::lower || cast == CastClass::promote;
}

std::optional<Fp8Norm> fp8_residual_norm(NormKind kind, const Tensor& x, const Tensor& residual,
                                         const Tensor& weight, const Tensor& bias, double eps) {
  if (!may_fuse(x, weight, bias)) return std::nullopt;
  const Op op = kind == NormKind::layer ? Op::residual_layer_norm : Op::residual_rms_norm;
  const Tensor inputs[] = {x, weight, bias, residual};
  const std::optional<DType> taken = amp::input_type(op, inputs);
  for (const Tensor& input : {x, residual}) {
    if (input.defined() && (input.dtype() == DType::f64 || (taken && input.dtype() != *taken)))
      return std::nullopt;
  }
  const DType stream = residual.defined() ? residual.dtype() : x.dtype();
  const DType type = normed_type(op, stream);
  // A kernel that also writes a wider result sums in another order.
  if (size_of(type) > size_of(stream)) return std::nullopt;
  return Fp8Norm{kind, x, residual, weight, bias, eps, type};
}

std::optional<Fp8Norm> fp8_norm(NormKind kind, const Tensor& x, const Tensor& weight,
                                const Tensor& bias, double eps) {
  if (!may_fuse(x, weight, bias)) return std::nullopt;
  const Op op = kind == NormKind::layer ? Op::layer_norm : Op::rms_norm;
  const Tensor inputs[] = {x, weight, bias};
  const std::optional<DType> taken = amp::input_type(op, inputs);
  if (x.dtype() == DType::f64 || (taken && x.dtype() != *taken)) return std::nullopt;
  return Fp8Norm{kind, x, {}, weight, bias, eps, x.dtype()};
}

}  // namespace binade
