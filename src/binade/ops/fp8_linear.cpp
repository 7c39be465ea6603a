#include "binade/ops/fp8_linear.h"

#include "binade/autograd/variable.h"
#include "binade/ops/common.h"

namespace binade {
namespace {

using namespace ops;
using amp::Fp8Role;

Tensor transposed(const Tensor& x) {
  return x.strided({x.size(1), x.size(0)}, {x.strides()[1], x.strides()[0]}, x.offset());
}

Tensor batch_of_one(const Tensor& x) {
  return x.strided({1, x.size(0), x.size(1)}, {0, x.strides()[0], x.strides()[1]}, x.offset());
}

// One operand of a product: FP8 with its scales, which lie along the summed axis, or values.
struct Operand {
  Tensor matrix;
  Tensor inverse_scale = {};
  ScaleGroup group = {};
};

Operand operand(const Quantized& q) { return {q.data, q.inverse_scale, q.group}; }

// The same as a product reads it that sums along q's rows rather than its columns: from the
// transposed codes where there are any, so that neighbours in the sum are neighbours in memory.
Operand operand_along_rows(const Quantized& q) {
  if (!q.transposed.defined()) return operand(q);
  return {transposed(q.transposed), q.inverse_scale};
}

// y = a x b with f32 sums, plus what y holds if `accumulate`.
void multiply(const Operand& a, const Operand& b, const Tensor& y, bool accumulate,
              backend::Epilogue epilogue = {}) {
  epilogue.beta = accumulate ? 1.0f : 0.0f;
  epilogue.scale_a = a.inverse_scale;
  epilogue.scale_b = b.inverse_scale;
  epilogue.group_a = a.group;
  epilogue.group_b = b.group;
  backend::of(y).matmul.matmul(batch_of_one(a.matrix), batch_of_one(b.matrix), batch_of_one(y),
                               epilogue);
}

Operand turned(const Operand& x) { return {transposed(x.matrix), x.inverse_scale, x.group}; }

}  // namespace

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
      .activation = static_cast<backend::Activation>(activation),
      .pre_activation = pre.defined() ? TensorView(batch_of_one(pre)) : TensorView(),
      .fast_accumulation = recipe.fast_accumulation};
  const auto low = [type](const Tensor& values) { return Operand{converted(values, type)}; };
  if (recipe.forward) {
    multiply(operand(input), turned(operand(state->weight_rows(recipe, weight))), y, false,
             epilogue);
  } else {
    multiply(low(flat), turned(low(weight)), y, false, epilogue);
  }
  Shape shape = x.shape();
  shape[x.rank() - 1] = out;
  if (!recording) return call.result(viewed(y, shape));

  // What each backward product needs, and no more: FP8 where it runs in FP8.
  Quantized wgrad_input;
  if (recipe.wgrad && weight.requires_grad()) {
    wgrad_input = whole ? input
                        : amp::quantize_by(recipe, Fp8Role::activation, transposed(flat),
                                           state->input, false);
    if (wgrad_input.transposed.defined()) wgrad_input.data = {};  // wgrad reads no others
  }
  const Tensor kept = recipe.wgrad || !weight.requires_grad() ? Tensor() : converted(flat, type);
  const Quantized dgrad_weight =
      recipe.dgrad && x.requires_grad() ? state->weight_columns(recipe, weight) : Quantized{};

  return call.result(viewed(y, shape), [=, pre = Saved(pre), weight = Saved(weight),
                                        kept = Saved(kept)](const Tensor& dy_given, GradSlots dx) {
    Tensor dy = viewed(dense(dy_given), {rows, out});
    if (activation == Activation::none) {
      add_reduced(dx[2], dy);
    } else {
      dy = activation_gradient(static_cast<backend::Activation>(activation), dy, pre, dx[2]);
    }
    const auto quantized = [&](const Tensor& matrix, bool records) {
      return amp::quantize_by(recipe, Fp8Role::gradient, matrix, state->gradient, records);
    };
    const Quantized gradient = (recipe.dgrad && dx[0].wanted()) || (recipe.wgrad && whole)
                                   ? quantized(dy, true)
                                   : Quantized{};
    if (dx[0].wanted()) {
      const auto [buffer, accumulate] = dx[0].target();
      const Tensor target = viewed(buffer, {rows, in});
      if (recipe.dgrad) {
        // Per-tensor weights are quantized as [out, in]; finer groups as [in, out], along the
        // summed axis.
        multiply(operand(gradient),
                 whole ? operand_along_rows(dgrad_weight) : turned(operand(dgrad_weight)), target,
                 accumulate);
      } else {
        multiply(low(dy), low(weight), target, accumulate);
      }
    }
    if (dx[1].wanted()) {
      const auto [buffer, accumulate] = dx[1].target();
      if (!recipe.wgrad) {
        multiply(turned(low(dy)), low(kept), buffer, accumulate);
      } else if (whole) {
        multiply(turned(operand_along_rows(gradient)), operand_along_rows(wgrad_input), buffer,
                 accumulate);
      } else {
        multiply(operand(quantized(transposed(dy), false)), turned(operand(wgrad_input)), buffer,
                 accumulate);
      }
    }
  });
}

}  // namespace binade
