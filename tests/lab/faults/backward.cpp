#include "lab/faults/table.h"

namespace binade::lab::faults {
std::vector<Fault> backward_faults() {
  using enum Direction;
  return {
      {"sqrt_at_zero", 0, [](const Tensor& w) { return sum(sqrt(w)); }, "sqrt", backward,
       Origin::op, Verdict::op},
      {"power_at_zero", 0, [](const Tensor& w) { return sum(pow(w, 0.5)); }, "pow", backward,
       Origin::op, Verdict::op},
      {"acos_at_one", 1, [](const Tensor& w) { return sum(acos(w)); }, "acos", backward, Origin::op,
       Verdict::op},
      {"log_of_a_tiny_number", 1e-40, [](const Tensor& w) { return sum(log(w)); }, "log", backward,
       Origin::op, Verdict::op},
      {"division_by_a_tiny_number", 1e-36, [](const Tensor& w) { return sum(constant(1e-30) / w); },
       "div", backward, Origin::op, Verdict::op},
      {"custom_backward", 1, [](const Tensor& w) { return sum(custom_op(w, 1, infinity)); }, "mine",
       backward, Origin::op, Verdict::op},
      {"sqrt_inside_recompute", 0,
       [](const Tensor& w) {
         return sum(checkpoint([](std::span<const Tensor> x) { return sqrt(x[0]); }, {w}));
       },
       "sqrt", backward, Origin::op, Verdict::op},
      {"scale_too_high_for_f16", 1,
       [](const Tensor& w) { return mean(cast(f16_of(w), DType::f32)) * 100; }, "cast", backward,
       Origin::op, Verdict::loss_scale, 65536, true},
      {"scale_too_high_in_a_matmul", 1,
       [](const Tensor& w) {
         const Tensor hidden = linear(constant(1), w);  // f16
         return mean(linear(hidden, constant(100, {4, 4}), {}), {}, false, DType::f32);
       },
       "linear", backward, Origin::op, Verdict::loss_scale, 65536, true},
      {"gradient_past_f16", 1,
       [](const Tensor& w) { return sum(cast(f16_of(w), DType::f32)) * 1e6; }, "cast", backward,
       Origin::op, Verdict::range, 1, true},
      {"norm_of_the_gradients", 0.01, [](const Tensor& w) { return sum(w) * 1e38; }, "grad_norm",
       optimizer, Origin::update, Verdict::divergence, 1, false, ""},
      {"nan_in_a_parameter", nan, [](const Tensor& w) { return sum(linear(constant(1), w)); },
       "linear", optimizer, Origin::parameter, Verdict::state},
  };
}

}  // namespace binade::lab::faults
