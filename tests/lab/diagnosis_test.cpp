#include "binade/lab/diagnosis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "binade/binade.h"

namespace binade::lab {
namespace {

using autograd::ModuleScope;
using ::testing::HasSubstr;

const double infinity = std::numeric_limits<double>::infinity();
const double nan = std::numeric_limits<double>::quiet_NaN();

// A planted fault: a function of one parameter, "layer.weight", that runs in module "layer", in f16
// under autocast or in f32 for the f32 replay.
struct Case {
  const char* name;
  double weight;  // all of the parameter's [4, 8] elements
  std::function<Tensor(const Tensor& weight)> run;
  const char* op;
  Direction direction;
  Origin origin;
  Verdict verdict;
  double scale = 1;
  bool autocast = false;
};

Tensor constant(double value, const Shape& shape = {4, 8}, DType dtype = DType::f32) {
  return full(shape, value, dtype);
}

// Ones with one `value` at [2, 5].
Tensor spiked(double value) {
  Tensor x = constant(1);
  fill_(x.strided({1}, {1}, 2 * 8 + 5), value);
  return x;
}

Tensor f16_of(const Tensor& x) { return amp::autocast_state().enabled ? cast(x, DType::f16) : x; }

Tensor custom_with(const Tensor& x, double forward, double backward) {
  return custom({.name = "mine",
                 .forward = [=](std::span<const Tensor> in) { return in[0] * forward; },
                 .backward = [=](const Tensor& dy, std::span<const Tensor>, const Tensor&,
                                 autograd::GradSlots dx) { dx[0].add(dy * backward); }},
                {x});
}

constexpr Origin by_op = Origin::op;
constexpr Verdict mathematics = Verdict::mathematics, precision = Verdict::precision;

const Tensor images = full({1, 2, 4, 4}, 300.0);

std::vector<Case> forward_cases() {
  using enum Direction;
  return {
      {"log_of_zero", 0, [](const Tensor& w) { return sum(log(w)); }, "log", forward, by_op,
       mathematics},
      {"sqrt_of_negative", -1, [](const Tensor& w) { return sum(sqrt(w)); }, "sqrt", forward, by_op,
       mathematics},
      {"division_by_zero", 0, [](const Tensor& w) { return sum(constant(1) / w); }, "div", forward,
       by_op, mathematics},
      {"exp_overflow", 100, [](const Tensor& w) { return sum(exp(w)); }, "exp", forward, by_op,
       mathematics},
      {"power_of_zero", 0, [](const Tensor& w) { return sum(pow(w, -1)); }, "pow", forward, by_op,
       mathematics},
      {"rsqrt_of_zero", 0, [](const Tensor& w) { return sum(rsqrt(w)); }, "rsqrt", forward, by_op,
       mathematics},
      {"acos_past_one", 2, [](const Tensor& w) { return sum(acos(w)); }, "acos", forward, by_op,
       mathematics},
      {"square_overflow", 1e30, [](const Tensor& w) { return sum(square(w)); }, "square", forward,
       by_op, mathematics},
      {"prod_overflow", 1e10, [](const Tensor& w) { return prod(w); }, "prod", forward, by_op,
       mathematics},
      {"variance_overflow", 1e30, [](const Tensor& w) { return sum(var(w * spiked(-1))); }, "var",
       forward, by_op, mathematics},
      {"layer_norm_of_a_constant", 1, [](const Tensor& w) { return sum(layer_norm(w, {}, {}, 0)); },
       "layer_norm", forward, by_op, mathematics},
      {"rms_norm_of_zero", 0, [](const Tensor& w) { return sum(rms_norm(w, {}, 0)); }, "rms_norm",
       forward, by_op, mathematics},
      {"mean_squared_error", 1e30, [](const Tensor& w) { return mse_loss(w, constant(0)); },
       "mse_loss", forward, by_op, mathematics},
      {"add_in_f16", 60000, [](const Tensor& w) { return sum(f16_of(w) + f16_of(w)); }, "add",
       forward, by_op, precision, 1, true},
      {"mul_in_f16", 300, [](const Tensor& w) { return sum(f16_of(w) * f16_of(w)); }, "mul",
       forward, by_op, precision, 1, true},
      {"swiglu_in_f16", 300, [](const Tensor& w) { return sum(swiglu(f16_of(w))); }, "swiglu",
       forward, by_op, precision, 1, true},
      {"cast_to_f16", 1e6, [](const Tensor& w) { return sum(f16_of(w)); }, "cast", forward, by_op,
       precision, 1, true},
      {"linear_in_f16", 300, [](const Tensor& w) { return sum(linear(constant(300), w)); },
       "linear", forward, by_op, precision, 1, true},
      {"matmul_in_f16", 300,
       [](const Tensor& w) {
         return sum(matmul(constant(300, {2, 4}), w));
       },
       "matmul", forward, by_op, precision, 1, true},
      {"einsum_in_f16", 300,
       [](const Tensor& w) {
         return sum(einsum("ij,kj->ik", {constant(300), w}));
       },
       "einsum", forward, by_op, precision, 1, true},
      {"conv2d_in_f16", 300,
       [](const Tensor& w) {
         return sum(conv2d(images, reshape(w, {4, 2, 2, 2})));
       },
       "conv2d", forward, by_op, precision, 1, true},
      {"addmm_in_f16", 300,
       [](const Tensor& w) {
         return sum(addmm(constant(0, {2, 8}), constant(300, {2, 4}), w));
       },
       "addmm", forward, by_op, precision, 1, true},
      {"attention_cast_to_f16", 1e6,
       [](const Tensor& w) {
         const Tensor q = reshape(w, {1, 1, 4, 8});
         return sum(scaled_dot_product_attention(q, q, q));
       },
       "scaled_dot_product_attention", forward, Origin::cast, precision, 1, true},
      {"linear_cast_to_f16", 1e6, [](const Tensor& w) { return sum(linear(constant(1), w)); },
       "linear", forward, Origin::cast, precision, 1, true},
      {"attention_scores_in_f16", 300,
       [](const Tensor& w) { return sum(softmax(matmul(w, transpose(w, 0, 1)))); }, "matmul",
       forward, by_op, precision, 1, true},
      {"residual_stream_in_f16", 60000,
       [](const Tensor& w) {
         return sum(residual_layer_norm(f16_of(w), f16_of(w), constant(1, {8}), {}).second);
       },
       "residual_layer_norm", forward, by_op, precision, 1, true},
      {"custom_forward", 1, [](const Tensor& w) { return sum(custom_with(w, nan, 1)); }, "mul",
       forward, by_op, mathematics},
      {"inside_recompute", 300,
       [](const Tensor& w) {
         return sum(
             checkpoint([](std::span<const Tensor> x) { return square(linear(x[0], x[0])); }, {w}));
       },
       "linear", forward, by_op, precision, 1, true},
      {"swallowed_and_back", 100, [](const Tensor& w) { return sum(reciprocal(exp(w))); }, "exp",
       forward, by_op, mathematics},
      {"nan_in_the_data", 1, [](const Tensor& w) { return sum(linear(spiked(nan), w)); }, "linear",
       forward, Origin::data, Verdict::data},
      {"inf_in_the_data", 1, [](const Tensor& w) { return sum(w * spiked(infinity)); }, "mul",
       forward, Origin::data, Verdict::data},
      {"nan_in_the_target", 1, [](const Tensor& w) { return mse_loss(w, spiked(nan)); }, "mse_loss",
       forward, Origin::data, Verdict::data},
  };
}

std::vector<Case> backward_cases() {
  using enum Direction;
  return {
      {"sqrt_at_zero", 0, [](const Tensor& w) { return sum(sqrt(w)); }, "sqrt", backward, by_op,
       mathematics},
      {"power_at_zero", 0, [](const Tensor& w) { return sum(pow(w, 0.5)); }, "pow", backward, by_op,
       mathematics},
      {"acos_at_one", 1, [](const Tensor& w) { return sum(acos(w)); }, "acos", backward, by_op,
       mathematics},
      {"log_of_a_tiny_number", 1e-40, [](const Tensor& w) { return sum(log(w)); }, "log", backward,
       by_op, mathematics},
      {"division_by_a_tiny_number", 1e-36, [](const Tensor& w) { return sum(constant(1e-30) / w); },
       "div", backward, by_op, mathematics},
      {"custom_backward", 1, [](const Tensor& w) { return sum(custom_with(w, 1, infinity)); },
       "custom", backward, by_op, mathematics},
      {"sqrt_inside_recompute", 0,
       [](const Tensor& w) {
         return sum(checkpoint([](std::span<const Tensor> x) { return sqrt(x[0]); }, {w}));
       },
       "sqrt", backward, by_op, mathematics},
      {"scale_too_high_for_f16", 1,
       [](const Tensor& w) { return mean(cast(f16_of(w), DType::f32)) * 100; }, "cast", backward,
       by_op, Verdict::scale, 65536, true},
      {"scale_too_high_in_a_matmul", 1,
       [](const Tensor& w) {
         const Tensor hidden = linear(constant(1), w);  // f16
         return mean(linear(hidden, constant(100, {4, 4}), {}), {}, false, DType::f32);
       },
       "linear", backward, by_op, Verdict::scale, 65536, true},
      {"gradient_past_f16", 1,
       [](const Tensor& w) { return sum(cast(f16_of(w), DType::f32)) * 1e6; }, "cast", backward,
       by_op, precision, 1, true},
      {"norm_of_the_gradients", 0.01, [](const Tensor& w) { return sum(w) * 1e38; }, "grad_norm",
       optimizer, Origin::update, mathematics},
      {"nan_in_a_parameter", nan, [](const Tensor& w) { return sum(linear(constant(1), w)); },
       "linear", optimizer, Origin::parameter, Verdict::weights},
  };
}

class Planted : public ::testing::TestWithParam<Case> {};

TEST_P(Planted, IsFoundWhereItWasPlanted) {
  const Case& planted = GetParam();
  Tensor weight = constant(planted.weight);
  weight.set_requires_grad();
  const auto loss = [&](ReplayPrecision precision) {
    const ModuleScope scope("layer");
    const bool as_run = precision == ReplayPrecision::as_run;
    const amp::Autocast cast(DType::f16, {.enabled = planted.autocast && as_run});
    return planted.run(weight);
  };
  const auto parameters = [&](ReplayPrecision) { return NamedTensors{{"layer.weight", weight}}; };
  const auto found = diagnose({loss, parameters, planted.scale});
  ASSERT_TRUE(found);
  const std::string text = to_text(*found);
  EXPECT_EQ(found->finding.op, planted.op) << text;
  EXPECT_EQ(found->finding.module, found->finding.op == "grad_norm" ? "" : "layer") << text;
  EXPECT_EQ(found->finding.direction, planted.direction) << text;
  EXPECT_EQ(found->finding.origin, planted.origin) << text;
  EXPECT_EQ(found->verdict, planted.verdict) << text;
  EXPECT_FALSE(std::isfinite(found->finding.first.value)) << text;
  EXPECT_EQ(found->finding.scale, planted.scale);
  EXPECT_FALSE(found->advice.empty());
  EXPECT_FALSE(weight.grad().defined());  // diagnose() clears gradients
}

const auto name_of = [](const auto& info) { return std::string(info.param.name); };
INSTANTIATE_TEST_SUITE_P(Forward, Planted, ::testing::ValuesIn(forward_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(Backward, Planted, ::testing::ValuesIn(backward_cases()), name_of);

TEST(Diagnosis, NamesTheElement) {
  Tensor weight = constant(1);
  weight.set_requires_grad();
  const auto found = diagnose({[&](ReplayPrecision) { return sum(linear(spiked(nan), weight)); },
                               [&](ReplayPrecision) {
                                 return NamedTensors{{"w", weight}};
                               }});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->finding.first.index, Shape({2, 5}));
  EXPECT_TRUE(std::isnan(found->finding.first.value));
  EXPECT_EQ(found->finding.first.count, 1);
  EXPECT_THAT(to_text(*found), HasSubstr("nan at [2, 5] of input 0 [4, 8] f32"));
}

TEST(Diagnosis, SaysWhichScaleFits) {
  Tensor weight = constant(1, {1});
  weight.set_requires_grad();
  // An f16 gradient of 100 * scale: 65504 / 100 = 655.04, so 512 is the largest power of two.
  const auto found = diagnose(
      {[&](ReplayPrecision) { return sum(cast(cast(weight, DType::f16), DType::f32)) * 100; },
       [&](ReplayPrecision) {
         return NamedTensors{{"w", weight}};
       },
       65536});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->verdict, Verdict::scale);
  EXPECT_EQ(found->largest_scale, 512);
}

TEST(Diagnosis, FindsNothingInAHealthyComputation) {
  Tensor weight = constant(1);
  weight.set_requires_grad();
  // A mask of -inf does not propagate through softmax: not a fault.
  const auto masked = [&](ReplayPrecision) {
    return sum(square(softmax(weight + spiked(-infinity))));
  };
  EXPECT_FALSE(diagnose({masked, [&](ReplayPrecision) { return NamedTensors{{"w", weight}}; }}));
}

// Faults of the optimizer, with finite gradients.
struct UpdateCase {
  const char* name;
  std::function<std::unique_ptr<optim::Optimizer>(const Tensor&)> optimizer;
  double weight, gradient;
  DType dtype;
  const char* op;
  const char* tensor;
};

template <class T, class Options>
auto maker(Options options) {
  return [options](const Tensor& w) -> std::unique_ptr<optim::Optimizer> {
    return std::make_unique<T>(std::vector<Tensor>{w}, options);
  };
}

std::vector<UpdateCase> update_cases() {
  using optim::AdamOptions, optim::SgdOptions;
  return {
      {"adam_without_eps", maker<optim::AdamW>(AdamOptions{.eps = 0}), 1, 0, DType::f32, "AdamW",
       "layer.weight [4, 8] f32"},
      {"second_moment", maker<optim::Adam>(AdamOptions{}), 1, 1e21, DType::f32, "Adam",
       "second moment of layer.weight [4, 8] f32"},
      {"rate_too_high", maker<optim::SGD>(SgdOptions{.lr = 1e20}), 1, 1e20, DType::f32, "SGD",
       "layer.weight [4, 8] f32"},
      {"momentum", maker<optim::SGD>(SgdOptions{.lr = 1, .weight_decay = 1e10}), 1e30, 1,
       DType::f32, "SGD", "layer.weight [4, 8] f32"},
      {"f16_without_master_weights",
       maker<optim::SGD>(SgdOptions{.lr = 1, .master = {.masters = false}}), 60000, -10000,
       DType::f16, "SGD", "layer.weight [4, 8] f16"},
      {"master_weight_beyond_f16", maker<optim::SGD>(SgdOptions{.lr = 1}), 60000, -10000,
       DType::f16, "SGD", "layer.weight [4, 8] f16"},
  };
}

class PlantedUpdate : public ::testing::TestWithParam<UpdateCase> {};

TEST_P(PlantedUpdate, IsFoundWhereItWasPlanted) {
  const UpdateCase& planted = GetParam();
  Tensor weight = constant(planted.weight, {4, 8}, planted.dtype);
  weight.set_requires_grad();
  const auto optimizer = planted.optimizer(weight);
  weight.set_grad(constant(planted.gradient));
  const NamedTensors names{{"layer.weight", weight}};
  EXPECT_FALSE(examine_update(*optimizer, names));
  optimizer->step();
  const auto found = examine_update(*optimizer, names);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->op, planted.op) << to_text(*found);
  EXPECT_EQ(found->module, "layer");
  EXPECT_EQ(found->direction, Direction::optimizer);
  EXPECT_EQ(found->tensor, planted.tensor);
}

INSTANTIATE_TEST_SUITE_P(Optimizer, PlantedUpdate, ::testing::ValuesIn(update_cases()), name_of);

}  // namespace
}  // namespace binade::lab
