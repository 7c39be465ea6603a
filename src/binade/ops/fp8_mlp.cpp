#include "binade/ops/fp8_mlp.h"

#include "binade/autograd/variable.h"
#include "binade/ops/common.h"
#include "binade/ops/fp8_products.h"

namespace binade {
namespace {

using namespace ops;
using amp::Fp8Role;

void check_layer(const char* argument, const Fp8Layer& layer, int64_t in) {
  require_rank("fp8_swiglu_mlp", argument, layer.weight, 2);
  if (layer.weight.size(1) != in) {
    fail("fp8_swiglu_mlp", {.argument = argument,
                            .expected = "[out, " + std::to_string(in) + "]",
                            .found = describe(layer.weight)});
  }
  if (layer.bias.defined())
    require_shape("fp8_swiglu_mlp", argument, layer.bias, {layer.weight.size(0)});
}

// What the backward keeps of one of the two.
struct Kept {
  amp::Fp8Recipe recipe;
  std::shared_ptr<amp::Fp8Linear> state;
  Quantized input;   // for wgrad
  Quantized weight;  // for dgrad

  Kept(const Fp8Layer& layer, const Quantized& input, bool dgrad)
      : recipe(*layer.recipe),
        state(layer.state),
        input(layer.weight.requires_grad() ? kept_for_wgrad(input) : Quantized{}),
        weight(dgrad ? state->weight_columns(recipe, layer.weight) : Quantized{}) {}

  void dgrad(const Quantized& gradient, const GradSlot::Target& target) const {
    multiply(operand(gradient), operand_along_rows(weight), target.buffer, target.accumulate);
  }
  void wgrad(const Quantized& gradient, const GradSlot& slot) const {
    if (!slot.wanted()) return;
    const auto [buffer, accumulate] = slot.target();
    multiply(turned(operand_along_rows(gradient)), operand_along_rows(input), buffer, accumulate);
  }
};

// y = input weight^T + bias.
void forward(const Fp8Layer& layer, const Quantized& input, const Tensor& y) {
  multiply(operand(input), turned(operand(layer.state->weight_rows(*layer.recipe, layer.weight))),
           y, false, {.bias = layer.bias, .fast_accumulation = layer.recipe->fast_accumulation});
}

// The codes of swiglu's gradient. Its values are made only where a bias wants their sums.
Quantized hidden_gradient(const Tensor& dy, const Tensor& hidden, const Kept& up,
                          const GradSlot& bias) {
  const auto& kernels = backend::of(dy);
  if (!bias.wanted()) {
    return amp::quantize_made(up.recipe, Fp8Role::gradient, hidden.shape(), hidden.device(),
                              up.state->gradient, true, [&](const backend::Codes& codes) {
                                kernels.quantize.quantize_swiglu_backward(dy, hidden, codes);
                              });
  }
  const Tensor gradient = Tensor::empty_like(hidden);
  kernels.activation.swiglu_backward(dy, hidden, gradient);
  add_reduced(bias, gradient);
  return amp::quantize_by(up.recipe, Fp8Role::gradient, gradient, up.state->gradient, true);
}

}  // namespace

Tensor fp8_swiglu_mlp(const Tensor& x, const Fp8Layer& up, const Fp8Layer& down) {
  require_compute("fp8_swiglu_mlp", "x", x);
  require_rank("fp8_swiglu_mlp", "down", down.weight, 2);
  const int64_t width = down.weight.size(1), out = down.weight.size(0);
  check_layer("up", up, x.rank() == 0 ? 0 : x.size(-1));
  check_layer("down", down, width);
  if (up.weight.size(0) != 2 * width) {
    fail("fp8_swiglu_mlp", {.argument = "up",
                            .expected = std::to_string(2 * width) + " outputs (gate, then up)",
                            .found = describe(up.weight)});
  }
  const amp::AutocastState autocast = amp::autocast_state();
  const DType type = autocast.enabled ? autocast.dtype : x.dtype();
  const amp::Autocast as_given(amp::AutocastState{});  // FP8 is made from the values as they are
  const Call call(Op::linear, {x, up.weight, up.bias, down.weight, down.bias});
  // Of a recomputed pair of forwards only the second runs with gradients: each amax counts once.
  const bool records_amax = autograd::grad_enabled();
  const auto [rows, in] = rows_of(x.shape());
  up.state->begin(*up.recipe, up.weight);
  down.state->begin(*down.recipe, down.weight);

  const Quantized input = amp::quantize_by(
      *up.recipe, Fp8Role::activation, viewed(dense(x), {rows, in}), up.state->input, records_amax);
  const Tensor hidden = Tensor::empty({rows, 2 * width}, type, x.device());
  forward(up, input, hidden);
  const Quantized gated =
      amp::quantize_made(*down.recipe, Fp8Role::activation, {rows, width}, x.device(),
                         down.state->input, records_amax, [&](const backend::Codes& codes) {
                           backend::of(hidden).quantize.quantize_swiglu(hidden, codes);
                         });
  const Tensor y = Tensor::empty({rows, out}, type, x.device());
  forward(down, gated, y);
  Shape shape = x.shape();
  shape[x.rank() - 1] = out;
  if (!call.recording()) return call.result(viewed(y, shape));

  const bool below = x.requires_grad() || up.weight.requires_grad() ||
                     (up.bias.defined() && up.bias.requires_grad());
  const Kept first(up, input, x.requires_grad()), second(down, gated, below);
  return call.result(viewed(y, shape), [=, hidden = Saved(below ? hidden : Tensor())](
                                           const Tensor& dy_given, GradSlots dx) {
    const Tensor dy = viewed(dense(dy_given), {rows, out});
    add_reduced(dx[4], dy);
    Tensor dgated;
    {
      const Quantized gradient =
          amp::quantize_by(second.recipe, Fp8Role::gradient, dy, second.state->gradient, true);
      second.wgrad(gradient, dx[3]);
      if (!below) return;
      dgated = Tensor::empty({rows, width}, type, dy.device());
      second.dgrad(gradient, {dgated, false});
    }
    const Quantized inner = hidden_gradient(dgated, hidden, first, dx[2]);
    dgated = {};
    if (dx[0].wanted()) {
      const auto [buffer, accumulate] = dx[0].target();
      first.dgrad(inner, {viewed(buffer, {rows, in}), accumulate});
    }
    first.wgrad(inner, dx[1]);
  });
}

bool swiglu_keeps_type(const Tensor& x) {
  if (x.dtype() == DType::f64) return false;
  if (!amp::autocast_state().enabled) return true;
  const CastClass cast = amp::class_of(Op::swiglu);
  return cast == CastClass::as_is || cast == CastClass::lower || cast == CastClass::promote;
}

}  // namespace binade
