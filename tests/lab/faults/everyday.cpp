#include "lab/faults/table.h"

// Faults of everyday programs: padding, losses over nothing, statistics of one element, values that
// no gradient flows through.
namespace binade::lab::faults {
namespace {

using autograd::ModuleScope;
using Inputs = std::span<const Tensor>;

const Tensor bad_positions = [] {
  Tensor table = full({4, 8}, 0.5);
  fill_(table.strided({8}, {1}, 8), nan);
  return table;
}();
const Tensor infinite_mean = full({4}, infinity), unit_variance = full({4}, 1.0);

// The mask of a row that is padding throughout, as large as f32 allows without harm.
Tensor padded_row(double value) {
  Tensor mask = constant(0, {4, 4});
  fill_(mask.strided({4}, {1}, 4), value);
  return mask;
}

std::vector<Fault> padding_faults() {
  using enum Direction;
  return {
      // -1e9 is harmless in f32, where the row's softmax is uniform, and -inf in f16.
      {"padding_that_f16_makes_infinite", 0.1,
       [](const Tensor& w) {
         const Tensor scores = matmul(w, transpose(w, 0, 1));
         return sum(softmax(f16_of(scores) + f16_of(padded_row(-1e9))) * constant(2, {4, 4}));
       },
       "cast", forward, Origin::op, Verdict::range, 1, true},
      {"attention_of_a_masked_row", 1,
       [](const Tensor& w) {
         const Tensor q = reshape(w, {1, 1, 4, 8});
         const Tensor scores = matmul(q, transpose(q, 2, 3)) + padded_row(-infinity);
         return sum(matmul(softmax(scores), q));
       },
       "softmax", forward, Origin::data, Verdict::data, 1, false, "layer", "row [0, 0, 1]"},
      {"loss_over_no_tokens", 1,
       [](const Tensor& w) {
         const Tensor keep = constant(0);
         return sum(w * keep) / sum(keep);
       },
       "div", forward, Origin::op, Verdict::op},
      {"mean_of_no_examples_beside_a_mask", 1,
       [](const Tensor& w) {
         const Tensor scores = matmul(w, transpose(w, 0, 1)) + padded_row(0);
         const Tensor none = sum(constant(0));
         return sum(softmax(scores)) + sum(w) * (none / none);
       },
       "div", forward, Origin::op, Verdict::op},
  };
}

std::vector<Fault> statistics_faults() {
  using enum Direction;
  return {
      {"variance_of_one_element", 1,
       [](const Tensor& w) {
         return sum(var(reshape(w, {32, 1}), {1}));
       },
       "var", forward, Origin::op, Verdict::op},
      {"distance_of_equal_points", 1,
       [](const Tensor& w) { return sqrt(sum(square(w - constant(1)))); }, "sqrt", backward,
       Origin::op, Verdict::op},
      {"root_behind_where", 0,
       [](const Tensor& w) { return sum(where(greater(w, 0.0), sqrt(w), constant(0))); }, "sqrt",
       backward, Origin::op, Verdict::op},
      {"batch_of_products_in_f16", 300,
       [](const Tensor& w) {
         return sum(bmm(reshape(w, {1, 4, 8}), reshape(w, {1, 8, 4})));
       },
       "bmm", forward, Origin::op, Verdict::range, 1, true},
      {"group_norm_of_a_constant", 1,
       [](const Tensor& w) {
         return sum(group_norm(reshape(w, {2, 4, 4}), 2, {}, {}, 0));
       },
       "group_norm", forward, Origin::op, Verdict::op},
  };
}

std::vector<Fault> flow_faults() {
  using enum Direction;
  std::vector<Fault> faults = {
      {"exponential_without_gradient", 100,
       [](const Tensor& w) {
         const Tensor factor = [&w] {
           const NoGrad no_grad;
           return exp(w);
         }();
         return sum(w * factor);
       },
       "exp", forward, Origin::op, Verdict::op},
      {"own_op_that_calls_another", 100,
       [](const Tensor& w) {
         const CustomOp op{
             .name = "normalized",
             .forward = [](Inputs in) { return in[0] / exp(in[0] * 1.0) * exp(in[0]); },
             .backward = [](const Tensor& dy, Inputs, const Tensor&,
                            autograd::GradSlots dx) { dx[0].add(dy); }};
         return sum(custom(op, {w}));
       },
       "normalized", forward, Origin::op, Verdict::op},
      {"recompute_in_recompute", 300,
       [](const Tensor& w) {
         const auto inner = [](Inputs x) {
           const ModuleScope scope("inner");
           return square(f16_of(x[0]));
         };
         const auto outer = [inner](Inputs x) { return checkpoint(inner, {x[0] * 1.0}) * 0.5; };
         return sum(checkpoint(outer, {w}));
       },
       "square", forward, Origin::op, Verdict::range, 1, true, "layer.inner"},
      {"positions_in_a_buffer", 1,
       [](const Tensor& w) {
         return sum(w + embedding(bad_positions, tensor({0, 1, 2, 3}, {4}, DType::i64)));
       },
       "embedding", forward, Origin::buffer, Verdict::state, 1, false, "layer", "layer.positions"},
      {"running_mean", 1,
       [](const Tensor& w) {
         return sum(batch_norm(reshape(w, {2, 4, 4}), {}, {}, infinite_mean, unit_variance,
                               {.training = false}));
       },
       "batch_norm", forward, Origin::buffer, Verdict::state, 1, false, "layer",
       "layer.running_mean"},
      {"bad_data_while_the_loss_rises", 1,
       [](const Tensor& w) { return sum(linear(spiked(nan), w)); }, "linear", forward, Origin::data,
       Verdict::data},
  };
  faults[3].buffers = {{"layer.positions", bad_positions}};
  faults[4].buffers = {{"layer.running_mean", infinite_mean}, {"layer.running_var", unit_variance}};
  for (int i = 0; i < 20; ++i)
    faults[5].history.push_back(
        {.loss = 5 + 20.0 * i, .gradient_norm = 1.0 + i, .weight_norm = 10.0 + i, .lr = 3});
  return faults;
}

}  // namespace

std::vector<Fault> everyday_faults() {
  std::vector<Fault> all;
  for (const auto& group : {padding_faults(), statistics_faults(), flow_faults()})
    all.insert(all.end(), group.begin(), group.end());
  return all;
}

}  // namespace binade::lab::faults
