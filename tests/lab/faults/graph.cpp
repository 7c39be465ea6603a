#include "lab/faults/table.h"

// Recompute, tensors that are used more than once, accumulation, and ops of the user.
namespace binade::lab::faults {
namespace {

using autograd::ModuleScope;
using Inputs = std::span<const Tensor>;

std::vector<Fault> recompute_faults() {
  using enum Direction;
  return {
      {"mask_and_overflow_in_recompute", 300,
       [](const Tensor& w) {
         return sum(checkpoint(
             [](Inputs x) {
               const Tensor masked = softmax(x[0] + spiked(-infinity, 0));
               return masked + square(f16_of(x[0]));
             },
             {w}));
       },
       "square", forward, Origin::op, Verdict::range, 1, true},
      {"logarithm_in_recompute", 0,
       [](const Tensor& w) {
         return sum(checkpoint([](Inputs x) { return log(x[0]) * 2.0; }, {w}));
       },
       "log", forward, Origin::op, Verdict::op},
      {"scale_too_high_in_recompute", 1,
       [](const Tensor& w) {
         const auto block = [](Inputs x) { return cast(f16_of(x[0]), DType::f32); };
         return mean(checkpoint(block, {w})) * 100;
       },
       "cast", backward, Origin::op, Verdict::loss_scale, 65536, true},
      {"epsilon_flushed_in_recompute", 0,
       [](const Tensor& w) {
         return sum(checkpoint(
             [](Inputs x) {
               const Tensor y = f16_of(x[0]);
               return constant(1, {4, 8}, y.dtype()) / (y + constant(1e-8, {4, 8}, y.dtype()));
             },
             {w}));
       },
       "div", forward, Origin::op, Verdict::underflow, 1, true},
      {"own_op_in_recompute", 1,
       [](const Tensor& w) {
         return sum(checkpoint([](Inputs x) { return custom_op(x[0], 1, infinity); }, {w}));
       },
       "mine", backward, Origin::op, Verdict::op},
  };
}

std::vector<Fault> reuse_faults() {
  using enum Direction;
  return {
      {"weight_shared_by_layers", 300,
       [](const Tensor& w) {
         const Tensor healthy = sum(linear(constant(0.1), w));
         const ModuleScope scope("second");
         return healthy + sum(linear(constant(300), w));
       },
       "linear", forward, Origin::op, Verdict::range, 1, true, "layer.second"},
      {"slice_without_the_bad_part", 0,
       [](const Tensor& w) {
         const Tensor bad = log(w) * constant(1), kept = where(greater(w, -1.0), w, bad);
         return sum(slice(kept, 0, 0, 2)) + sum(rsqrt(w));
       },
       "rsqrt", forward, Origin::op, Verdict::op},
      {"transposed_view_of_a_bad_result", 0,
       [](const Tensor& w) {
         const Tensor bad = log(w);
         return sum(matmul(constant(1, {2, 8}), transpose(bad, 0, 1)));
       },
       "log", forward, Origin::op, Verdict::op},
      {"concatenated_with_a_mask", 1,
       [](const Tensor& w) {
         const Tensor both = cat({w, constant(-infinity)}, 1);
         return sum(softmax(both)) + sum(asin(w * 2.0));
       },
       "asin", forward, Origin::op, Verdict::op},
  };
}

std::vector<Fault> accumulation_faults() {
  using enum Direction;
  return {
      {"loss_times_scale_beyond_f16", 100, [](const Tensor& w) { return mean(f16_of(w)); }, "scale",
       backward, Origin::op, Verdict::loss_scale, 65536, true, ""},
      {"loss_times_scale_beyond_f32", 1, [](const Tensor& w) { return mean(w) * 1e35; }, "scale",
       backward, Origin::op, Verdict::loss_scale, 65536, false, ""},
      {"sum_of_two_gradients_in_f16", 1,
       [](const Tensor& w) {
         const Tensor x = f16_of(w);
         return sum(cast(x, DType::f32) * 40000.0) + sum(cast(x, DType::f32) * 40000.0);
       },
       "cast", backward, Origin::op, Verdict::range, 1, true},
  };
}

std::vector<Fault> custom_faults() {
  using enum Direction;
  return {
      {"own_op_overflows_in_f16", 300,
       [](const Tensor& w) { return sum(custom_op(f16_of(w), 300, 1)); }, "mine", forward,
       Origin::op, Verdict::range, 1, true},
      {"own_op_after_a_cast_to_f16", 1e6,
       [](const Tensor& w) { return sum(custom_op(w, 1, 1, CastClass::lower)); }, "mine", forward,
       Origin::cast, Verdict::range, 1, true},
      {"own_op_on_bad_data", 1,
       [](const Tensor& w) { return sum(w * custom_op(spiked(nan), 2, 1)); }, "mine", forward,
       Origin::data, Verdict::data},
      {"own_backward_beside_a_mask", 1,
       [](const Tensor& w) {
         return sum(softmax(w + spiked(-infinity, 0))) + sum(custom_op(w, 1, nan));
       },
       "mine", backward, Origin::op, Verdict::op},
  };
}

}  // namespace

std::vector<Fault> graph_faults() {
  std::vector<Fault> all;
  for (const auto& group :
       {recompute_faults(), reuse_faults(), accumulation_faults(), custom_faults()})
    all.insert(all.end(), group.begin(), group.end());
  return all;
}

}  // namespace binade::lab::faults
