#include "binade/ops/fp8_linear.h"

#include "binade/autograd/grad_mode.h"
#include "binade/ops/common.h"
#include "binade/ops/fp8_products.h"

namespace binade {

using namespace ops;
using amp::Fp8Role;

Tensor fp8_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation,
                  const amp::Fp8Recipe& recipe, const std::shared_ptr<amp::Fp8Linear>& state) {
  require_compute("fp8_linear", "x", x);
  require_rank("fp8_linear", "weight", weight, 2);
  if (x.rank() == 0 || x.size(-1) != weight.size(1)) {
    fail("fp8_linear", {.argument = "x",
                        .expected = "[..., " + std::to_string(weight.size(1)) + "]",
                        .found = describe(x)});
  }
  if (bias.defined()) require_shape("fp8_linear", "bias", bias, {weight.size(0)});
  const amp::AutocastState autocast = amp::autocast_state();
  const DType type = autocast.enabled ? autocast.dtype : x.dtype();
  const amp::Autocast as_given(amp::AutocastState{});  // FP8 is made from the values as they are
  const Call call(Op::linear, {x, weight, bias});
  const bool recording = call.recording();
  // Of a recomputed pair of forwards only the second runs with gradients: each amax counts once.
  const bool records_amax = autograd::grad_enabled();
  const auto [rows, in] = rows_of(x.shape());
  const int64_t out = weight.size(0);
  const bool whole = amp::scale_group(recipe, Fp8Role::activation) == ScaleGroup{};
  state->begin(recipe, weight);

  const Tensor flat = viewed(dense(call[0]), {rows, in});
  const Quantized input =
      recipe.forward || (recipe.wgrad && whole)
          ? amp::quantize_by(recipe, Fp8Role::activation, flat, state->input, records_amax)
          : Quantized{};
  const Tensor y = Tensor::empty({rows, out}, type, x.device());
  const Tensor pre = activation != Activation::none && recording ? Tensor::empty_like(y) : Tensor();
  const backend::Epilogue epilogue{
      .bias = call[2],
      .activation = activation,
      .pre_activation = pre.defined() ? TensorView(batch_of_one(pre)) : TensorView(),
      .fast_accumulation = recipe.fast_accumulation};
  const auto low = [type](const Tensor& values) { return Operand{converted(values, type)}; };
  if (recipe.forward) {
    multiply(operand(input), transposed(operand(state->weight_rows(recipe, weight))), y, false,
             epilogue);
  } else {
    multiply(low(flat), transposed(low(weight)), y, false, epilogue);
  }
  Shape shape = x.shape();
  shape[x.rank() - 1] = out;
  if (!recording) return call.result(viewed(y, shape));

  // What each backward product needs, and no more: FP8 where it runs in FP8.
  Quantized wgrad_input;
  if (recipe.wgrad && weight.requires_grad()) {
    wgrad_input = kept_for_wgrad(whole ? input
                                       : amp::quantize_by(recipe, Fp8Role::activation,
                                                          transposed(flat), state->input, false));
  }
  const Tensor kept = recipe.wgrad || !weight.requires_grad() ? Tensor() : converted(flat, type);
  const Quantized dgrad_weight =
      recipe.dgrad && x.requires_grad() ? state->weight_columns(recipe, weight) : Quantized{};

  return call.result(viewed(y, shape), [=, pre = Saved(pre), weight = Saved(weight),
                                        kept = Saved(kept)](const Tensor& dy_given, GradSlots dx) {
    Tensor dy = viewed(dense(dy_given), {rows, out});
    const auto quantized = [&](const Tensor& matrix, bool records) {
      return amp::quantize_by(recipe, Fp8Role::gradient, matrix, state->gradient, records);
    };
    Quantized gradient;
    if (activation != Activation::none && amp::can_fuse_quantize(recipe) && !dx[2].needs_grad() &&
        dy.dtype() != DType::f64) {
      gradient = amp::quantize_fused(recipe, Fp8Role::gradient, dy.shape(), dy.device(),
                                     state->gradient, true, [&](const backend::Codes& codes) {
                                       backend::of(dy).quantize.quantize_activation_backward(
                                           activation, dy, pre, codes);
                                     });
    } else {
      if (activation == Activation::none) {
        add_reduced(dx[2], dy);
      } else {
        dy = activation_gradient(activation, dy, pre, dx[2]);
      }
      if ((recipe.dgrad && dx[0].needs_grad()) || (recipe.wgrad && whole))
        gradient = quantized(dy, true);
    }
    if (dx[0].needs_grad()) {
      const auto [buffer, accumulate] = dx[0].target();
      const Tensor target = viewed(buffer, {rows, in});
      if (recipe.dgrad) {
        // Per-tensor weights are quantized as [out, in]; finer groups as [in, out], along the
        // summed axis.
        multiply(operand(gradient),
                 whole ? operand_along_rows(dgrad_weight) : transposed(operand(dgrad_weight)),
                 target, accumulate);
      } else {
        multiply(low(dy), low(weight), target, accumulate);
      }
    }
    if (dx[1].needs_grad()) {
      const auto [buffer, accumulate] = dx[1].target();
      if (!recipe.wgrad) {
        multiply(transposed(low(dy)), low(kept), buffer, accumulate);
      } else if (whole) {
        multiply(transposed(operand_along_rows(gradient)), operand_along_rows(wgrad_input), buffer,
                 accumulate);
      } else {
        multiply(operand(quantized(transposed(dy), false)), transposed(operand(wgrad_input)),
                 buffer, accumulate);
      }
    }
  });
}

}  // namespace binade
