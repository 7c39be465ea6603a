#include "binade/ops/quantized/fused.h"

#include "binade/amp/recipe/state.h"
#include "binade/autograd/grad_mode.h"
#include "binade/base/function_ref.h"
#include "binade/ops/attention/rotation.h"
#include "binade/ops/norm/common.h"
#include "binade/ops/quantized/mlp_matmuls.h"

namespace binade {
namespace {

using namespace ops;
using backend::NormKind;

void check_layer(const char* argument, const QuantizedLayer& layer, int64_t in) {
  require_rank("quantized_linear", argument, layer.weight, 2);
  if (layer.weight.size(1) != in) {
    fail("quantized_linear", {.argument = argument,
                              .expected = "[out, " + std::to_string(in) + "]",
                              .found = describe(layer.weight)});
  }
  if (layer.bias.defined())
    require_shape("quantized_linear", argument, layer.bias, {layer.weight.size(0)});
}

// A layer whose result is rotated.
struct RotatedMatmuls {
  LayerMatmuls linear;
  Rotation rotation;
  Shape heads;  // [batch, tokens, heads, dim]

  // Has the contract of LayerMatmuls::backward.
  void backward(const Tensor& dy, GradSlots parameters,
                FunctionRef<GradSlot::Target()> dinput) const {
    const Rotation back = rotation.inverted();
    const auto write = [&](const Tensor& dx) { back(viewed(dy, heads), viewed(dx, heads)); };
    const auto write_quantized = [&](const backend::QuantizedOutput& out) {
      backend::of(dy).quantize.quantize_rope(back.operands(viewed(dy, heads)), out);
    };
    linear.backward(linear.gradient(dy.shape(), dy.dtype(), parameters[1], write, write_quantized),
                    parameters[0], dinput);
  }
};

void check_mlp(const QuantizedLayer& up, const QuantizedLayer& down, int64_t in) {
  require_rank("quantized_linear", "down", down.weight, 2);
  check_layer("up", up, in);
  check_layer("down", down, down.weight.size(1));
  if (up.weight.size(0) != 2 * down.weight.size(1)) {
    fail("quantized_linear",
         {.argument = "up",
          .expected = std::to_string(2 * down.weight.size(1)) + " outputs (gate, then up)",
          .found = describe(up.weight)});
  }
}

// Whether fused ops are possible at all. Bad arguments are left to the plain ops, which report
// them.
bool may_fuse_norm(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const auto double_precision = [](const Tensor& parameter) {
    return parameter.defined() && parameter.dtype() == DType::f64;
  };
  return amp::recipe_state().enabled && x.defined() && x.rank() > 0 && !double_precision(weight) &&
         !double_precision(bias);
}

// A norm's forward: the sum that is normalized and its statistics, with the operands dense.
struct NormForward {
  const FusedNorm& norm;
  Tensor x, residual, sum, weight, bias, mean, rstd;

  NormForward(const FusedNorm& norm, const Shape& flat)
      : norm(norm),
        x(viewed(dense(norm.x), flat)),
        sum(x),
        weight(dense(norm.weight)),
        bias(dense(norm.bias)) {
    const Device device = norm.x.device();
    if (norm.residual.defined()) {
      residual = viewed(dense(norm.residual), flat);
      sum = Tensor::empty(flat, residual.dtype(), device);
    }
    if (norm.kind == NormKind::layer) mean = Tensor::empty({flat[0]}, DType::f32, device);
    rstd = Tensor::empty({flat[0]}, DType::f32, device);
  }

  // Computes the sum and its statistics, and quantizes the result if `out` has data.
  void run(const backend::QuantizedOutput& out = {}) const {
    backend::of(x).norm.forward({.kind = norm.kind,
                                 .x = x,
                                 .residual = residual,
                                 .weight = weight,
                                 .bias = bias,
                                 .eps = norm.eps,
                                 .sum = residual.defined() ? sum : Tensor(),
                                 .mean = mean,
                                 .rstd = rstd,
                                 .quantized = out,
                                 .rounded = norm.dtype});
  }

  // Quantizes the result again from the sum and its statistics.
  Quantize quantize() const {
    return [x = Saved(sum), w = Saved(weight), b = Saved(bias), m = Saved(mean), r = Saved(rstd),
            dtype = norm.dtype](const backend::QuantizedOutput& out) {
      backend::of(x.get()).quantize.quantize_norm(
          {.x = x, .weight = w, .bias = b, .mean = m, .rstd = r, .dtype = dtype}, out);
    };
  }

  // Runs it and returns its result as the input of `layer`. `kept`: for the backward.
  LayerMatmuls::Matrix input_of(const QuantizedLayer& layer, const LayerForward& forward,
                                bool kept) const {
    amp::Quantizer quantizer = input_quantizer(layer, forward);
    // The norm's kernel writes rows alone. Transposed data takes another pass over the sum, which
    // the backward can run as well as the forward.
    LayerMatmuls::Matrix input;
    if (kept && (quantizer.transposes || layer.facts.requantizes)) {
      input.again = quantize();
      quantizer.transposes = false;
    }
    if (quantizer.transposes) {
      run();
      input.quantized = quantizer.quantize_fused(sum.shape(), x.device(), quantize());
    } else {
      input.quantized = quantizer.quantize_fused(
          sum.shape(), x.device(), [this](const backend::QuantizedOutput& out) { run(out); });
    }
    return input;
  }
};

// run(the norm's result, forward) returns {matmuls, y} of the layers after the norm. `first` is the
// first of them; `parameters` are the weight and bias of each.
template <class Run>
std::pair<Tensor, Tensor> after_norm(const FusedNorm& norm, const QuantizedLayer& first,
                                     std::initializer_list<Tensor> parameters, Run run) {
  check_norm("quantized_norm_linear", {.kind = norm.kind,
                                       .x = norm.x,
                                       .residual = norm.residual,
                                       .weight = norm.weight,
                                       .bias = norm.bias,
                                       .eps = norm.eps});
  const DType dtype = linear_dtype(norm.dtype);
  const amp::Autocast off(amp::disabled_autocast());  // quantized from the values as given
  std::vector<Tensor> inputs = {norm.x, norm.weight, norm.bias, norm.residual};
  inputs.insert(inputs.end(), parameters);
  const Call call(Op::linear, inputs);
  const auto [rows, width] = rows_of(norm.x.shape());
  const Shape flat{rows, width};
  const bool dinput = autograd::recording(std::span(inputs).first(4));
  const LayerForward forward{.dtype = dtype,
                             .recording = call.recording(),
                             .input_needs_grad = dinput,
                             .records_amax = autograd::grad_enabled()};
  const NormForward normed(norm, flat);
  const auto [matmuls, y] = run(normed.input_of(first, forward, dinput), forward);
  const Tensor outputs[2] = {viewed(normed.sum, norm.x.shape()),
                             viewed(y, with_last_size(norm.x.shape(), y.size(1)))};
  const NormGradient backward{norm.kind, normed.sum, normed.weight, normed.mean, normed.rstd};
  call.results(outputs,
               [matmuls = matmuls, backward, dinput, flat, full = norm.x.shape(),
                dtype = norm.dtype, out = y.size(1)](std::span<const Tensor> dy, GradSlots dx) {
                 Tensor dnormed;
                 if (dy[1].defined()) {
                   const auto target = [&]() -> GradSlot::Target {
                     if (!dinput) return {{}, false};
                     dnormed = Tensor::empty(full, dtype, dy[1].device());
                     return {viewed(dnormed, flat), false};
                   };
                   matmuls.backward(viewed(dense(dy[1]), {flat[0], out}), dx.subspan(4), target);
                 }
                 if (!dinput) return;
                 const Tensor gradient = backward.through_sum(dy[0], dnormed, dx[1], dx[2], dx[0]);
                 dx[0].add(gradient);
                 dx[3].add(gradient);
               });
  return {outputs[0], outputs[1]};
}

}  // namespace

Tensor quantized_swiglu_mlp(const Tensor& x, const QuantizedLayer& up, const QuantizedLayer& down) {
  require_compute("quantized_linear", "x", x);
  check_mlp(up, down, x.rank() == 0 ? 0 : x.size(-1));
  const DType dtype = linear_dtype(x.dtype());
  const amp::Autocast off(amp::disabled_autocast());  // quantized from the values as given
  const Call call(Op::linear, {x, up.weight, up.bias, down.weight, down.bias});
  const auto [rows, in] = rows_of(x.shape());
  for (const QuantizedLayer* layer : {&up, &down}) begin(*layer);
  const LayerForward forward{.dtype = dtype,
                             .recording = call.recording(),
                             .input_needs_grad = call.recording() && x.requires_grad(),
                             .records_amax = autograd::grad_enabled()};
  const Tensor values = viewed(dense(x), {rows, in});
  const auto [matmuls, y] =
      MlpMatmuls::forward(up, down, quantized_input(up, forward, x, values), forward);
  return call.result(
      viewed(y, with_last_size(x.shape(), y.size(1))),
      [matmuls = matmuls, flat = Shape{rows, in}, out = y.size(1)](const Tensor& dy, GradSlots dx) {
        matmuls.backward(viewed(dense(dy), {flat[0], out}), dx.subspan(1),
                         [&] { return input_target(dx[0], flat); });
      });
}

std::pair<Tensor, Tensor> quantized_norm_linear(const FusedNorm& norm,
                                                const QuantizedLayer& layer) {
  check_layer("weight", layer, norm.x.size(-1));
  begin(layer);
  return after_norm(norm, layer, {layer.weight, layer.bias},
                    [&](const LayerMatmuls::Matrix& normed, const LayerForward& forward) {
                      return values_forward(layer, normed, forward);
                    });
}

std::pair<Tensor, Tensor> quantized_norm_linear_rope(const FusedNorm& norm,
                                                     const QuantizedLayer& layer,
                                                     const FusedRope& rope) {
  check_layer("weight", layer, norm.x.size(-1));
  begin(layer);
  const Shape heads{norm.x.size(0), norm.x.size(1), layer.weight.size(0) / rope.dim, rope.dim};
  return after_norm(norm, layer, {layer.weight, layer.bias},
                    [&](const LayerMatmuls::Matrix& normed, const LayerForward& forward) {
                      const auto [linear, y] = values_forward(layer, normed, forward);
                      const Tensor result = viewed(y, heads);
                      const Rotation rotation =
                          Rotation::of(result, rope.cosine, rope.sine, 0, rope.rotated);
                      rotation(result, result);
                      return std::pair(RotatedMatmuls{linear, rotation, heads}, y);
                    });
}

std::pair<Tensor, Tensor> quantized_norm_swiglu_mlp(const FusedNorm& norm, const QuantizedLayer& up,
                                                    const QuantizedLayer& down) {
  check_mlp(up, down, norm.x.size(-1));
  for (const QuantizedLayer* layer : {&up, &down}) begin(*layer);
  return after_norm(norm, up, {up.weight, up.bias, down.weight, down.bias},
                    [&](const LayerMatmuls::Matrix& normed, const LayerForward& forward) {
                      return MlpMatmuls::forward(up, down, normed, forward);
                    });
}

bool keeps_type(Op op, const Tensor& x) {
  if (x.defined() && x.dtype() == DType::f64) return false;
  if (!amp::autocast_state().enabled) return true;
  const CastClass cast = amp::class_of(op);
  return cast == CastClass::as_is || cast == CastClass::lower || cast == CastClass::promote;
}

std::optional<FusedNorm> fused_residual_norm(NormKind kind, const Tensor& x, const Tensor& residual,
                                             const Tensor& weight, const Tensor& bias, double eps) {
  if (!may_fuse_norm(x, weight, bias)) return std::nullopt;
  const Op op = kind == NormKind::layer ? Op::residual_layer_norm : Op::residual_rms_norm;
  const Tensor inputs[] = {x, weight, bias, residual};
  const std::optional<DType> target = amp::input_type(op, inputs);
  for (const Tensor& input : {x, residual}) {
    if (input.defined() && (input.dtype() == DType::f64 || (target && input.dtype() != *target)))
      return std::nullopt;
  }
  const DType stream = residual.defined() ? residual.dtype() : x.dtype();
  const DType type = normed_type(op, stream);
  // A kernel that also writes a wider result sums in another order.
  if (size_of(type) > size_of(stream)) return std::nullopt;
  return FusedNorm{kind, x, residual, weight, bias, eps, type};
}

std::optional<FusedNorm> fused_norm(NormKind kind, const Tensor& x, const Tensor& weight,
                                    const Tensor& bias, double eps) {
  if (!may_fuse_norm(x, weight, bias)) return std::nullopt;
  const Op op = kind == NormKind::layer ? Op::layer_norm : Op::rms_norm;
  const Tensor inputs[] = {x, weight, bias};
  const std::optional<DType> target = amp::input_type(op, inputs);
  if (x.dtype() == DType::f64 || (target && x.dtype() != *target)) return std::nullopt;
  return FusedNorm{kind, x, {}, weight, bias, eps, x.dtype()};
}

}  // namespace binade
