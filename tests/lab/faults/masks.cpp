#include "lab/faults/table.h"

// Legal infinities of masks, beside a fault that is somewhere else.
namespace binade::lab::faults {
namespace {

using autograd::ModuleScope;

// [4, 4], -inf above the diagonal.
Tensor causal_mask() {
  Tensor mask = constant(0, {4, 4});
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t j = i + 1; j < 4; ++j) fill_(mask.strided({1}, {1}, 4 * i + j), -infinity);
  }
  return mask;
}

const Tensor shared_mask = causal_mask();

Tensor scores(const Tensor& x) { return matmul(x, transpose(x, 0, 1)); }

// Row 1 of four is padding: true elsewhere.
Tensor not_padding() {
  Tensor keep = full({4, 1}, 1, DType::boolean);
  fill_(keep.strided({1}, {1}, 1), 0);
  return keep;
}

// True in row 2 of four.
Tensor row_2() {
  Tensor fills = full({4, 1}, 0, DType::boolean);
  fill_(fills.strided({1}, {1}, 2), 1);
  return fills;
}

// Zeros, with NaN in row 1.
Tensor padding() {
  Tensor x = constant(0, {4, 4});
  fill_(x.strided({4}, {1}, 4), nan);
  return x;
}

}  // namespace

std::vector<Fault> mask_faults() {
  using enum Direction;
  const auto tensor_of_mask = [] { return shared_mask; };
  return {
      {"mask_shared_by_layers", 20,
       [](const Tensor& w) {
         const Tensor first = sum(softmax(scores(w) + shared_mask));
         const ModuleScope scope("second");
         return first + sum(softmax(scores(w * 10.0) + shared_mask));
       },
       "matmul", forward, Origin::op, Verdict::range, 1, true, "layer.second"},
      {"mask_and_a_scale_too_high", 1,
       [](const Tensor& w) {
         return sum(softmax(scores(w) + shared_mask)) + mean(cast(f16_of(w), DType::f32)) * 100;
       },
       "cast", backward, Origin::op, Verdict::loss_scale, 65536, true},
      {"mask_by_where", 0,
       [](const Tensor& w) {
         const Tensor attention =
             softmax(where(less(shared_mask, 0.0), constant(-infinity, {4, 4}), scores(w)));
         return sum(attention) + sum(log(w));
       },
       "log", forward, Origin::op, Verdict::op},
      {"row_masked_whole", 1,
       [](const Tensor& w) {
         Tensor mask = constant(0, {4, 4});
         fill_(mask.strided({4}, {1}, 8), -infinity);
         return sum(softmax(scores(w) + mask));
       },
       "softmax", forward, Origin::data, Verdict::data, 1, false, "layer", "row [2]"},
      {"row_filled_whole_in_f32", 1,
       [](const Tensor& w) { return sum(softmax(masked_fill(scores(w), row_2(), -infinity))); },
       "softmax", forward, Origin::data, Verdict::data, 1, false, "layer", "row [2]"},
      {"row_filled_whole_in_bf16", 1,
       [](const Tensor& w) {
         return sum(softmax(masked_fill(cast(scores(w), DType::bf16), row_2(), -infinity)));
       },
       "softmax", forward, Origin::data, Verdict::data, 1, false, "layer", "row [2]"},
      {"row_filled_whole_in_f16", 1,
       [](const Tensor& w) {
         return sum(softmax(masked_fill(cast(scores(w), DType::f16), row_2(), -infinity)));
       },
       "softmax", forward, Origin::data, Verdict::data, 1, false, "layer", "row [2]"},
      {"mask_times_zero", 1,
       [=](const Tensor& w) { return sum(softmax(scores(w) * (tensor_of_mask() * 0.0))); }, "mul",
       forward, Origin::data, Verdict::data},
      {"mask_that_f16_makes_infinite", 300,
       [](const Tensor& w) {
         const Tensor mask = f16_of(maximum(shared_mask, constant(-1e9, {4, 4})));
         return sum(softmax(scores(w * 0.01) + mask)) + sum(f16_of(w) * f16_of(w));
       },
       "mul", forward, Origin::op, Verdict::range, 1, true},
      {"mask_beside_nan_in_the_data", 1,
       [](const Tensor& w) {
         return sum(softmax(scores(w) + shared_mask)) + sum(linear(spiked(nan), w));
       },
       "linear", forward, Origin::data, Verdict::data, 1, false, "layer", "input 0"},
      {"nan_in_padding_that_is_removed", 300,
       [](const Tensor& w) {
         const Tensor hidden = linear(constant(300), w) + padding();
         return sum(where(not_padding(), hidden, constant(0, {4, 4}, hidden.dtype())));
       },
       "linear", forward, Origin::op, Verdict::range, 1, true},
      {"logarithm_of_a_mask", 0,
       [](const Tensor& w) {
         const Tensor keep =
             where(less(shared_mask, 0.0), constant(0, {4, 4}), constant(1, {4, 4}));
         return sum(softmax(scores(w) + log(keep))) + sum(pow(w, 0.5));
       },
       "pow", backward, Origin::op, Verdict::op},
      {"mask_in_a_maximum", 0,
       [](const Tensor& w) {
         return sum(max(scores(w) + shared_mask, {-1})) + sum(constant(1) / w);
       },
       "div", forward, Origin::op, Verdict::op},
      {"mask_where_backward_is_nan", 0,
       [](const Tensor& w) {
         const Tensor masked = softmax(scores(w) + shared_mask);
         return sum(masked) + sum(where(greater(w, 0.0), log(w), constant(0)));
       },
       "log", forward, Origin::op, Verdict::op},
  };
}

}  // namespace binade::lab::faults
