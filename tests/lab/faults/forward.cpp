#include "lab/faults/table.h"

namespace binade::lab::faults {
namespace {

const Tensor images = full({1, 2, 4, 4}, 300.0);

}  // namespace

std::vector<Fault> forward_faults() {
  using enum Direction;
  return {
      {"log_of_zero", 0, [](const Tensor& w) { return sum(log(w)); }, "log", forward, Origin::op,
       Verdict::op},
      {"sqrt_of_negative", -1, [](const Tensor& w) { return sum(sqrt(w)); }, "sqrt", forward,
       Origin::op, Verdict::op},
      {"division_by_zero", 0, [](const Tensor& w) { return sum(constant(1) / w); }, "div", forward,
       Origin::op, Verdict::op},
      {"exp_overflow", 100, [](const Tensor& w) { return sum(exp(w)); }, "exp", forward, Origin::op,
       Verdict::op},
      {"power_of_zero", 0, [](const Tensor& w) { return sum(pow(w, -1)); }, "pow", forward,
       Origin::op, Verdict::op},
      {"rsqrt_of_zero", 0, [](const Tensor& w) { return sum(rsqrt(w)); }, "rsqrt", forward,
       Origin::op, Verdict::op},
      {"acos_past_one", 2, [](const Tensor& w) { return sum(acos(w)); }, "acos", forward,
       Origin::op, Verdict::op},
      {"square_overflow", 1e30, [](const Tensor& w) { return sum(square(w)); }, "square", forward,
       Origin::op, Verdict::op},
      {"prod_overflow", 1e10, [](const Tensor& w) { return prod(w); }, "prod", forward, Origin::op,
       Verdict::op},
      {"variance_overflow", 1e30, [](const Tensor& w) { return sum(var(w * spiked(-1))); }, "var",
       forward, Origin::op, Verdict::op},
      {"layer_norm_of_a_constant", 1, [](const Tensor& w) { return sum(layer_norm(w, {}, {}, 0)); },
       "layer_norm", forward, Origin::op, Verdict::op},
      {"rms_norm_of_zero", 0, [](const Tensor& w) { return sum(rms_norm(w, {}, 0)); }, "rms_norm",
       forward, Origin::op, Verdict::op},
      {"mean_squared_error", 1e30, [](const Tensor& w) { return mse_loss(w, constant(0)); },
       "mse_loss", forward, Origin::op, Verdict::op},
      {"add_in_f16", 60000, [](const Tensor& w) { return sum(f16_of(w) + f16_of(w)); }, "add",
       forward, Origin::op, Verdict::range, 1, true},
      {"mul_in_f16", 300, [](const Tensor& w) { return sum(f16_of(w) * f16_of(w)); }, "mul",
       forward, Origin::op, Verdict::range, 1, true},
      {"swiglu_in_f16", 300, [](const Tensor& w) { return sum(swiglu(f16_of(w))); }, "swiglu",
       forward, Origin::op, Verdict::range, 1, true},
      {"cast_to_f16", 1e6, [](const Tensor& w) { return sum(f16_of(w)); }, "cast", forward,
       Origin::op, Verdict::range, 1, true},
      {"linear_in_f16", 300, [](const Tensor& w) { return sum(linear(constant(300), w)); },
       "linear", forward, Origin::op, Verdict::range, 1, true},
      {"matmul_in_f16", 300,
       [](const Tensor& w) {
         return sum(matmul(constant(300, {2, 4}), w));
       },
       "matmul", forward, Origin::op, Verdict::range, 1, true},
      {"einsum_in_f16", 300,
       [](const Tensor& w) {
         return sum(einsum("ij,kj->ik", {constant(300), w}));
       },
       "einsum", forward, Origin::op, Verdict::range, 1, true},
      {"conv2d_in_f16", 300,
       [](const Tensor& w) {
         return sum(conv2d(images, reshape(w, {4, 2, 2, 2})));
       },
       "conv2d", forward, Origin::op, Verdict::range, 1, true},
      {"addmm_in_f16", 300,
       [](const Tensor& w) {
         return sum(addmm(constant(0, {2, 8}), constant(300, {2, 4}), w));
       },
       "addmm", forward, Origin::op, Verdict::range, 1, true},
      {"attention_cast_to_f16", 1e6,
       [](const Tensor& w) {
         const Tensor q = reshape(w, {1, 1, 4, 8});
         return sum(scaled_dot_product_attention(q, q, q));
       },
       "scaled_dot_product_attention", forward, Origin::cast, Verdict::range, 1, true},
      {"linear_cast_to_f16", 1e6, [](const Tensor& w) { return sum(linear(constant(1), w)); },
       "linear", forward, Origin::cast, Verdict::range, 1, true},
      {"attention_scores_in_f16", 300,
       [](const Tensor& w) { return sum(softmax(matmul(w, transpose(w, 0, 1)))); }, "matmul",
       forward, Origin::op, Verdict::range, 1, true},
      {"residual_stream_in_f16", 60000,
       [](const Tensor& w) {
         return sum(residual_layer_norm(f16_of(w), f16_of(w), constant(1, {8}), {}).second);
       },
       "residual_layer_norm", forward, Origin::op, Verdict::range, 1, true},
      {"custom_forward", 1, [](const Tensor& w) { return sum(custom_op(w, nan, 1)); }, "mine",
       forward, Origin::op, Verdict::op},
      {"inside_recompute", 300,
       [](const Tensor& w) {
         return sum(
             checkpoint([](std::span<const Tensor> x) { return square(linear(x[0], x[0])); }, {w}));
       },
       "linear", forward, Origin::op, Verdict::range, 1, true},
      {"swallowed_and_back", 100, [](const Tensor& w) { return sum(reciprocal(exp(w))); }, "exp",
       forward, Origin::op, Verdict::op},
      {"nan_in_the_data", 1, [](const Tensor& w) { return sum(linear(spiked(nan), w)); }, "linear",
       forward, Origin::data, Verdict::data},
      {"inf_in_the_data", 1, [](const Tensor& w) { return sum(w * spiked(infinity)); }, "mul",
       forward, Origin::data, Verdict::data},
      {"nan_in_the_target", 1, [](const Tensor& w) { return mse_loss(w, spiked(nan)); }, "mse_loss",
       forward, Origin::data, Verdict::data},
  };
}

}  // namespace binade::lab::faults
