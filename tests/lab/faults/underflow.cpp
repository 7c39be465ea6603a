#include "lab/faults/table.h"

// Values that f16 flushes to zero: gradients, and what an op divides by.
namespace binade::lab::faults {

std::vector<Fault> underflow_faults() {
  using enum Direction;
  constexpr Verdict underflow = Verdict::underflow;
  return {
      {"gradient_below_f16", 1,
       [](const Tensor& w) { return sum(cast(f16_of(w), DType::f32)) * 1e-9; }, "cast", backward,
       Origin::op, underflow, 1, true},
      {"scale_too_low", 1,
       [](const Tensor& w) { return mean(linear(constant(1), w), {}, false, DType::f32); }, "mean",
       backward, Origin::op, underflow, 1e-9, true},
      {"gradient_lost_in_a_product", 1,
       [](const Tensor& w) {
         return sum(linear(linear(constant(1), w), constant(1e-6, {4, 4}))) * 1e-3;
       },
       "linear", backward, Origin::op, underflow, 1, true},
      {"gradient_lost_in_a_custom_op", 1,
       [](const Tensor& w) { return sum(cast(custom_op(f16_of(w), 1, 1e-9), DType::f32)); }, "mine",
       backward, Origin::op, underflow, 1, true},
      {"epsilon_below_f16", 0,
       [](const Tensor& w) {
         const Tensor x = f16_of(w);
         return sum(constant(1, {4, 8}, x.dtype()) / (x + constant(1e-8, {4, 8}, x.dtype())));
       },
       "div", forward, Origin::op, underflow, 1, true},
      {"square_below_f16", 1e-5, [](const Tensor& w) { return sum(reciprocal(square(f16_of(w)))); },
       "reciprocal", forward, Origin::op, underflow, 1, true},
      {"logarithm_of_a_flushed_value", 1e-9, [](const Tensor& w) { return sum(log(f16_of(w))); },
       "log", forward, Origin::op, underflow, 1, true},
      {"root_of_a_flushed_square", 1e-5,
       [](const Tensor& w) { return sum(sqrt(square(f16_of(w)))); }, "sqrt", backward, Origin::op,
       underflow, 1, true},
      {"division_by_a_flushed_norm", 1e-5,
       [](const Tensor& w) {
         const Tensor x = f16_of(w);
         return sum(x / sqrt(cast(sum(square(x)), x.dtype())));
       },
       "div", forward, Origin::op, underflow, 1, true},
  };
}

}  // namespace binade::lab::faults
