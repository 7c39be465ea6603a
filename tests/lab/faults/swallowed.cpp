#include "lab/faults/table.h"

// Overflows of f16 that leave every later number finite, since something is divided by them; and
// types that the program itself chose.
namespace binade::lab::faults {
namespace {

// Row 0 is 1; the others are as given.
Tensor first_row_small(const Tensor& w) {
  Tensor factor = constant(1, {4, 1});
  fill_(factor.strided({1}, {1}, 0), 1e-3);
  return w * factor;
}

// A norm by hand, which squares in the type of its input.
Tensor rms_norm_by_hand(const Tensor& x) {
  const Tensor y = f16_of(x);
  return y * rsqrt(mean(y * y, {1}, true) + 1e-5);
}

std::vector<Fault> divided_away() {
  using enum Direction;
  constexpr Verdict range = Verdict::range;
  return {
      {"square_in_a_norm_by_hand", 300,
       [](const Tensor& w) { return sum(square(rms_norm_by_hand(first_row_small(w)) - 0.5)); },
       "mul", forward, Origin::op, range, 1, true},
      {"square_in_a_norm_at_a_loss_scale", 300,
       [](const Tensor& w) { return mean(rms_norm_by_hand(w * spiked(0.5)) * spiked(3)); }, "mul",
       forward, Origin::op, range, 1024, true},
      {"token_count_in_f16", 1,
       [](const Tensor& w) {
         const Tensor count = f16_of(constant(70000, {}));
         return sum(w * 3.0) / cast(count, DType::f32);
       },
       "cast", forward, Origin::op, range, 1, true},
      {"sum_of_exponentials_in_f16", 10,
       [](const Tensor& w) {
         const Tensor e = f16_of(exp(w * spiked(0.5)));
         return -sum(log(e / sum(e, {1}, true, e.dtype())));
       },
       "sum", forward, Origin::op, range, 1, true},
      {"softmax_by_hand_without_a_logarithm", 10,
       [](const Tensor& w) {
         const Tensor e = f16_of(exp(w * spiked(0.5)));
         return sum(square(e / sum(e, {1}, true, e.dtype()) - 0.25));
       },
       "sum", forward, Origin::op, range, 1, true},
  };
}

// Without a cure: autocast does not reach what the program casts by itself.
std::vector<Fault> hard_coded() {
  using enum Direction;
  const std::string own = "the program itself";
  return {
      {.name = "product_of_own_casts",
       .weight = 300,
       .run =
           [](const Tensor& w) {
             const Tensor x = cast(w, DType::f16);
             return sum(x * x);
           },
       .op = "mul",
       .verdict = Verdict::range,
       .says = own},
      {.name = "product_of_own_casts_under_autocast",
       .weight = 300,
       .run =
           [](const Tensor& w) {
             const Tensor x = cast(w, DType::f16);
             return sum(x * x);
           },
       .op = "mul",
       .verdict = Verdict::range,
       .autocast = true,
       .says = own},
      {.name = "own_cast",
       .weight = 1e6,
       .run = [](const Tensor& w) { return sum(cast(w, DType::f16)); },
       .op = "cast",
       .verdict = Verdict::range,
       .says = own},
      {.name = "own_f16_sum",
       .weight = 60000,
       .run = [](const Tensor& w) { return sum(cast(w, DType::f16), {}, false, DType::f16); },
       .op = "sum",
       .verdict = Verdict::range,
       .says = own},
      // f32 does not help here, whatever the type.
      {.name = "own_cast_before_a_logarithm",
       .weight = 0,
       .run = [](const Tensor& w) { return sum(log(cast(w, DType::f16))); },
       .op = "log",
       .verdict = Verdict::op,
       .says = "clamp its input"},
      {.name = "own_cast_before_a_division",
       .weight = 0,
       .run =
           [](const Tensor& w) {
             return sum(constant(1, {4, 8}, DType::f16) / cast(w, DType::f16));
           },
       .op = "div",
       .verdict = Verdict::op,
       .says = "epsilon"},
  };
}

// Advice that fits the op.
std::vector<Fault> advised() {
  using enum Direction;
  return {
      {.name = "deviation_of_one_element",
       .weight = 2,
       .run =
           [](const Tensor& w) {
             return sum(binade::std(reshape(w, {32, 1}), {1}));
           },
       .op = "std",
       .says = "one element"},
      {.name = "variance_of_one_element_says_so",
       .weight = 2,
       .run =
           [](const Tensor& w) {
             return sum(var(reshape(w, {32, 1}), {1}));
           },
       .op = "var",
       .says = "one element"},
      {.name = "cross_entropy_over_nothing",
       .weight = 2,
       .run = [](const Tensor& w) { return cross_entropy(w, full({4}, -100, DType::i64)); },
       .op = "cross_entropy",
       .says = "no target counts"},
      {.name = "count_of_nothing",
       .weight = 2,
       .run =
           [](const Tensor& w) {
             const Tensor keep = constant(0);
             return sum(w * keep) / sum(keep);
           },
       .op = "div",
       .says = "0 / 0"},
      {.name = "remainder_by_zero",
       .weight = 3,
       .run = [](const Tensor& w) { return sum(remainder(w, constant(0))); },
       .op = "remainder",
       .says = "divisor"},
      {.name = "own_function",
       .weight = 3,
       .run = [](const Tensor& w) { return sum(custom_op(w, nan, 1)); },
       .op = "mine",
       .says = "the forward of mine, which the program defines"},
      {.name = "own_function_backward",
       .weight = 3,
       .run = [](const Tensor& w) { return sum(custom_op(w, 2, infinity)); },
       .op = "mine",
       .direction = backward,
       .says = "the backward of mine, which the program defines"},
  };
}

}  // namespace

std::vector<Fault> swallowed_faults() {
  std::vector<Fault> all;
  for (const auto& group : {divided_away(), hard_coded(), advised()})
    all.insert(all.end(), group.begin(), group.end());
  return all;
}

}  // namespace binade::lab::faults
