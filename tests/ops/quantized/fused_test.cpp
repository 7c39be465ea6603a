#include "binade/ops/quantized/fused.h"

#include <gtest/gtest.h>

#include "binade/amp/autocast.h"
#include "binade/amp/recipe/state.h"
#include "binade/amp/recipe/text.h"
#include "binade/autograd/engine.h"
#include "binade/autograd/grad_mode.h"
#include "binade/backend/gpu.h"
#include "binade/ops/attention/rope.h"
#include "binade/ops/elementwise/activation.h"
#include "binade/ops/norm/norm.h"
#include "binade/ops/quantized/linear.h"
#include "binade/ops/shape/shape.h"
#include "support/tensors.h"

// Fused ops are their composites bit for bit: results, gradients, scales and histories.
namespace binade {
namespace {

using amp::Recipe;
using backend::NormKind;

// A delayed recipe with these fields.
Recipe delayed_with(const std::string& fields) { return amp::parse_recipe("delayed, " + fields); }

struct Case {
  int64_t rows = 48, in = 32, width = 64, out = 32;
  DType type = DType::bf16;  // of autocast; f32: none
  bool bias = false;
  bool trains_up = true, trains_down = true, trains_x = true;
  Recipe recipe = delayed_with("history = 3");
  // Of the norm before it.
  NormKind norm = NormKind::layer;
  bool residual = true;
  DType stream = DType::bf16;
  bool trains_norm = true;
  Activation activation = Activation::none;
};

// Runs an input, its residual, the norm's weight and bias and two layers, fused or not.
using QuantizedProgram = std::vector<Tensor> (*)(const Case& c, bool fused,
                                                 std::span<const Tensor> in,
                                                 const QuantizedLayer& up,
                                                 const QuantizedLayer& down);

Tensor apply(const Tensor& x, const QuantizedLayer& layer) { return quantized_linear(x, layer); }

std::vector<Tensor> mlp(const Case&, bool fused, std::span<const Tensor> in,
                        const QuantizedLayer& up, const QuantizedLayer& down) {
  return {fused ? quantized_swiglu_mlp(in[0], up, down) : apply(swiglu(apply(in[0], up)), down)};
}

std::pair<Tensor, Tensor> plain_norm(const Case& c, std::span<const Tensor> in) {
  return c.norm == NormKind::layer ? residual_layer_norm(in[0], in[1], in[2], in[3])
                                   : residual_rms_norm(in[0], in[1], in[2]);
}

FusedNorm fused_norm(const Case& c, std::span<const Tensor> in) {
  const std::optional<FusedNorm> norm = fused_residual_norm(
      c.norm, in[0], in[1], in[2], c.norm == NormKind::layer ? in[3] : Tensor(), 1e-5);
  return norm.value();
}

std::vector<Tensor> norm_mlp(const Case& c, bool fused, std::span<const Tensor> in,
                             const QuantizedLayer& up, const QuantizedLayer& down) {
  const auto [sum, y] = [&] {
    if (fused) return quantized_norm_swiglu_mlp(fused_norm(c, in), up, down);
    const auto [sum, normed] = plain_norm(c, in);
    return std::pair(sum, apply(swiglu(apply(normed, up)), down));
  }();
  return {sum, y};
}

std::vector<Tensor> norm_linear(const Case& c, bool fused, std::span<const Tensor> in,
                                const QuantizedLayer& up, const QuantizedLayer&) {
  QuantizedLayer layer = up;
  layer.activation = c.activation;
  layer.facts.stores_result &= c.activation == Activation::none;
  const auto [sum, y] = [&] {
    if (fused) return quantized_norm_linear(fused_norm(c, in), layer);
    const auto [sum, normed] = plain_norm(c, in);
    return std::pair(sum, apply(normed, layer));
  }();
  return {sum, y};
}

// All heads but the last one are rotated.
std::vector<Tensor> norm_linear_rope(const Case& c, bool fused, std::span<const Tensor> in,
                                     const QuantizedLayer& up, const QuantizedLayer&) {
  const int64_t out = up.weight.size(0), dim = out % 32 == 0 ? 32 : 2, rotated = out / dim - 1;
  const auto [cosine, sine] = rope_tables(in[0].size(1), dim, 10000, in[0].device());
  const auto [sum, y] = [&] {
    if (fused) {
      return quantized_norm_linear_rope(
          fused_norm(c, in), up, {.cosine = cosine, .sine = sine, .dim = dim, .rotated = rotated});
    }
    const auto [sum, normed] = plain_norm(c, in);
    const Tensor y = apply(normed, up);
    const Tensor heads = reshape(y, {y.size(0), y.size(1), out / dim, dim});
    return std::pair(sum, reshape(rope_(heads, cosine, sine, 0, rotated), y.shape()));
  }();
  return {sum, y};
}

// How a program runs.
struct Mode {
  bool fused = false, recomputes_results = false;
  bool tight = false;  // any memory that a backward takes is a new peak
};

// All results and states of three steps of two micro-batches.
std::vector<Tensor> run(const Case& c, Device device, QuantizedProgram program, Mode mode) {
  const auto noise = [&](const Shape& shape, uint64_t stream, DType dtype, bool trains) {
    Tensor x = test::noise(shape, stream, dtype, device);
    if (trains) x.set_requires_grad();
    return x;
  };
  const auto layer = [&](int64_t in, int64_t out, uint64_t stream, bool trains, bool hidden) {
    return with_facts({.weight = noise({out, in}, stream, DType::f32, trains),
                       .bias = c.bias ? noise({out}, stream + 1, DType::f32, trains) : Tensor(),
                       .recipe = &c.recipe,
                       .scales = std::make_shared<amp::LayerScales>()},
                      {.recomputes_results = mode.recomputes_results, .feeds_swiglu = hidden});
  };
  const QuantizedLayer up = layer(c.in, 2 * c.width, 1, c.trains_up, true),
                       down = layer(c.width, c.out, 3, c.trains_down, false);
  const Tensor weight = noise({c.in}, 5, DType::f32, c.trains_norm),
               bias = noise({c.in}, 6, DType::f32, c.trains_norm);
  const amp::QuantizedAutocast fp8(c.recipe);
  std::vector<Tensor> left;
  for (uint64_t step = 0; step < 3; ++step) {
    for (uint64_t micro = 0; micro < 2; ++micro) {
      const amp::Autocast autocast(c.type == DType::f32 ? DType::bf16 : c.type,
                                   {.enabled = c.type != DType::f32});
      const Shape shape{2, c.rows / 2, c.in};
      const std::vector<Tensor> inputs = {
          noise(shape, 10 + step * 2 + micro, c.type, c.trains_x),
          c.residual ? noise(shape, 30 + step * 2 + micro, c.stream, c.trains_x) : Tensor(), weight,
          bias};
      const std::vector<Tensor> y = program(c, mode.fused, inputs, up, down);
      std::vector<Tensor> outputs, seeds;
      for (size_t i = 0; i < y.size(); ++i) {
        left.push_back(y[i].detach());
        if (!y[i].requires_grad()) continue;
        outputs.push_back(y[i]);
        seeds.push_back(test::noise(y[i].shape(), 40 + step + 3 * i, y[i].dtype(), device));
      }
      if (outputs.empty()) continue;
      if (mode.tight)
        memory::reset_peak(device);
      else
        Tensor::empty({int64_t{64} << 20}, DType::u8, device);  // more than any of these takes
      autograd::run_backward(outputs, seeds);
      for (const Tensor& x : inputs)
        if (x.defined() && x.requires_grad()) left.push_back(x.grad());
    }
    // A changed weight ends a step.
    for (const Tensor& changed : {up.weight, down.weight}) changed.bump_version();
  }
  for (const QuantizedLayer* one : {&up, &down}) {
    for (const Tensor& x : {one->weight, one->bias}) {
      if (x.defined() && x.requires_grad()) left.push_back(x.grad());
    }
    for (const amp::Role role : amp::layer_roles) {
      const amp::ScaleStream& stream = (*one->scales)[role];
      if (!stream.defined()) continue;
      for (const Tensor& x : {stream.history, stream.scale, stream.pending, stream.dropped})
        left.push_back(x);
    }
  }
  return left;
}

void expect_equal(const Case& c, Device device, QuantizedProgram program) {
  const std::vector<Tensor> expected = run(c, device, program, {});
  for (const Mode mode : {Mode{.fused = true}, Mode{.fused = true, .recomputes_results = true},
                          Mode{.fused = true, .recomputes_results = true, .tight = true}}) {
    SCOPED_TRACE(mode.tight ? "tight" : mode.recomputes_results ? "quantized again" : "kept");
    const std::vector<Tensor> found = run(c, device, program, mode);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_TRUE(test::same_bits(found[i], expected[i])) << "result " << i;
  }
}

const std::vector<std::pair<const char*, Case>>& cases() {
  const Recipe hidden = delayed_with("history = 3, hidden = true");
  static const std::vector<std::pair<const char*, Case>> all = {
      {"bf16", {}},
      {"f16", {.type = DType::f16, .stream = DType::f16}},
      {"no autocast", {.type = DType::f32, .stream = DType::f32}},
      {"ragged", {.rows = 38, .in = 19, .width = 27, .out = 11}},
      {"large", {.rows = 272, .in = 48, .width = 144, .out = 160}},
      {"bias", {.bias = true}},
      {"up is frozen", {.trains_up = false}},
      {"down is frozen", {.trains_down = false}},
      {"only down trains", {.trains_up = false, .trains_x = false, .trains_norm = false}},
      {"x needs no gradient", {.trains_x = false}},
      {"nothing trains",
       {.trains_up = false, .trains_down = false, .trains_x = false, .trains_norm = false}},
      {"e4m3 everywhere", {.recipe = delayed_with(R"(format = "e4m3", history = 2)")}},
      {"hidden", {.recipe = hidden}},
      {"hidden, f16", {.type = DType::f16, .recipe = hidden, .stream = DType::f16}},
      {"hidden, no autocast", {.type = DType::f32, .recipe = hidden, .stream = DType::f32}},
      {"hidden, ragged", {.rows = 38, .in = 19, .width = 27, .out = 11, .recipe = hidden}},
      {"hidden, large",
       {.rows = 272,
        .in = 48,
        .width = 144,
        .out = 160,
        .recipe = delayed_with("history = 1024, hidden = true")}},
      {"hidden, bias", {.bias = true, .recipe = hidden}},
      {"hidden, up is frozen", {.trains_up = false, .recipe = hidden}}};
  return all;
}

const std::vector<std::pair<const char*, Case>>& norm_cases() {
  static const std::vector<std::pair<const char*, Case>> all = {
      {"rms", {.norm = NormKind::rms}},
      {"rms, ragged", {.rows = 38, .in = 19, .width = 27, .out = 11, .norm = NormKind::rms}},
      {"no residual", {.residual = false}},
      {"f32 stream", {.stream = DType::f32}},
      {"f32 stream, ragged", {.rows = 38, .in = 19, .width = 27, .out = 11, .stream = DType::f32}},
      {"the norm is frozen", {.trains_norm = false}},
      {"gelu", {.activation = Activation::gelu_tanh}},
      {"gelu and bias", {.bias = true, .activation = Activation::gelu_tanh}}};
  return all;
}

void expect_all_equal(Device device) {
  const std::pair<const char*, QuantizedProgram> programs[] = {
      {"mlp", mlp},
      {"norm_mlp", norm_mlp},
      {"norm_linear", norm_linear},
      {"norm_linear_rope", norm_linear_rope}};
  for (const auto& [program_name, program] : programs) {
    for (const auto* list : {&cases(), &norm_cases()}) {
      if (program == mlp && list == &norm_cases()) continue;
      for (const auto& [name, one] : *list) {
        SCOPED_TRACE(std::string(program_name) + ", " + name);
        expect_equal(one, device, program);
      }
    }
  }
}

TEST(QuantizedFused, IsItsComposite) { expect_all_equal(Device::cpu()); }

TEST(QuantizedFusedGpu, IsItsComposite) {
  if (backend::gpus().empty()) GTEST_SKIP() << "there is no GPU";
  expect_all_equal(Device::cuda());
}

// The bytes that forwards of norm_mlp hold for their backward.
int64_t held_by(const Case& c, Device device, bool recomputes_results, int forwards) {
  const auto leaf = [&](const Shape& shape, uint64_t stream, DType dtype) {
    return test::noise_leaf(shape, stream, dtype, device);
  };
  const auto layer = [&](int64_t in, int64_t out) {
    return with_facts({.weight = leaf({out, in}, 1, DType::f32),
                       .recipe = &c.recipe,
                       .scales = std::make_shared<amp::LayerScales>()},
                      {.recomputes_results = recomputes_results});
  };
  const amp::QuantizedAutocast fp8(c.recipe);
  const amp::Autocast autocast(DType::bf16);
  const QuantizedLayer up = layer(c.in, 2 * c.width), down = layer(c.width, c.out);
  const std::vector<Tensor> inputs = {leaf({c.rows, c.in}, 2, DType::bf16),
                                      leaf({c.rows, c.in}, 3, DType::bf16),
                                      leaf({c.in}, 4, DType::f32), leaf({c.in}, 5, DType::f32)};
  for (const QuantizedLayer* one : {&up, &down}) ops::begin(*one);
  for (const QuantizedLayer* one : {&up, &down}) one->weight.bump_version();
  std::vector<std::vector<Tensor>> results;
  const int64_t before = memory::allocated(device);
  for (int i = 0; i < forwards; ++i) results.push_back(norm_mlp(c, true, inputs, up, down));
  return memory::allocated(device) - before;
}

// A layer that quantizes again holds the sum, its statistics, the hidden values and the result, but
// no quantized data.
TEST(QuantizedFused, KeepsNoDataThatItQuantizesAgain) {
  const Case c{.rows = 64, .in = 128, .width = 128, .out = 128};
  const auto kept = [&](int forwards) {
    return held_by(c, Device::cpu(), false, forwards) - held_by(c, Device::cpu(), true, forwards);
  };
  const int64_t weights = 3 * c.in * c.width, activations = c.rows * (c.in + c.width);
  constexpr int64_t scales = 64;  // of dropped data, a few bytes each
  EXPECT_NEAR(kept(1), weights + activations, scales);
  // Gradient accumulation quantizes weights a second time and then keeps them.
  EXPECT_NEAR(kept(3), 3 * activations, scales);
}

// On a GPU others hold transposed data: of the weights, of SwiGLU's result, but not of a norm's.
TEST(QuantizedFusedGpu, KeepsWhatTheBackwardReads) {
  if (backend::gpus().empty()) GTEST_SKIP() << "there is no GPU";
  const Case c{.rows = 256, .in = 512, .width = 1024, .out = 512};
  const int64_t kept = held_by(c, Device::cuda(), false, 1) - held_by(c, Device::cuda(), true, 1);
  const int64_t weights = 3 * c.in * c.width, gated = c.rows * c.width;
  constexpr int64_t scales = 8 << 10;  // in blocks of their own
  EXPECT_NEAR(kept, weights + gated, scales);
}

// Half of 16-bit values, and a scale.
TEST(QuantizedFused, KeepsHiddenInFp8) {
  const Case c{.rows = 64, .in = 128, .width = 128, .out = 128};
  const amp::Autocast autocast(DType::bf16);
  const auto held_by = [&](bool hidden) {
    Recipe recipe = delayed_with("history = 3");
    recipe.set_hidden(hidden);
    const amp::QuantizedAutocast fp8(recipe);
    const auto layer = [&](int64_t in, int64_t out) {
      return with_facts({.weight = test::noise_leaf({out, in}, 1),
                         .recipe = &recipe,
                         .scales = std::make_shared<amp::LayerScales>()},
                        {.recomputes_results = true, .feeds_swiglu = true});
    };
    const QuantizedLayer up = layer(c.in, 2 * c.width), down = layer(c.width, c.out);
    const Tensor x = test::noise_leaf({c.rows, c.in}, 2, DType::bf16);
    quantized_swiglu_mlp(x, up, down);  // creates the scales
    for (const QuantizedLayer* one : {&up, &down}) one->weight.bump_version();
    const int64_t before = memory::statistics().allocated;
    const Tensor y = quantized_swiglu_mlp(x, up, down);
    return memory::statistics().allocated - before;
  };
  constexpr int64_t scales = 64;
  EXPECT_NEAR(held_by(false) - held_by(true), c.rows * 2 * c.width, scales);
}

// A changed weight means other scales.
TEST(QuantizedFused, QuantizesNothingAgainAfterAStep) {
  const Case c;
  const QuantizedLayer up = with_facts({.weight = test::noise_leaf({2 * c.width, c.in}, 1),
                                        .recipe = &c.recipe,
                                        .scales = std::make_shared<amp::LayerScales>()},
                                       {.recomputes_results = true});
  const std::vector<Tensor> inputs = {test::noise_leaf({c.rows, c.in}, 2, DType::bf16),
                                      test::noise_leaf({c.rows, c.in}, 3, DType::bf16),
                                      test::noise_leaf({c.in}, 4), test::noise_leaf({c.in}, 5)};
  const amp::QuantizedAutocast fp8(c.recipe);
  const amp::Autocast autocast(DType::bf16);
  const Tensor y = norm_linear(c, true, inputs, up, up)[1];
  up.weight.bump_version();
  EXPECT_THROW(y.backward(test::noise(y.shape(), 6, y.dtype())), Error);
}

// Type conversions that the fused kernels do not do are left to the plain ops.
TEST(QuantizedFused, ReplacesNoNormThatConvertsTypes) {
  const Tensor x = test::noise({4, 8}, 1, DType::bf16), weight = test::noise({8}, 2);
  const auto layer = [&](const Tensor& in) {
    return fused_norm(NormKind::layer, in, weight, {}, 1e-5);
  };
  EXPECT_FALSE(layer(x));  // no recipe
  const amp::QuantizedAutocast fp8(amp::recipes::delayed());
  EXPECT_TRUE(layer(x));
  EXPECT_FALSE(layer(test::noise({4, 8}, 1, DType::f64)));
  EXPECT_FALSE(layer({}));
  const amp::Autocast autocast(DType::bf16);
  EXPECT_FALSE(layer(x));  // autocast gives this norm f32
  EXPECT_TRUE(layer(test::noise({4, 8}, 1)));
  auto policy = std::make_shared<amp::Policy>();
  policy->set(Op::residual_layer_norm, CastClass::f32).set(Op::swiglu, CastClass::f32);
  EXPECT_TRUE(fused_residual_norm(NormKind::layer, x, x, weight, {}, 1e-5));
  EXPECT_TRUE(keeps_type(Op::swiglu, x));
  const amp::Autocast wide(DType::bf16, {.policy = policy});
  EXPECT_FALSE(fused_residual_norm(NormKind::layer, x, x, weight, {}, 1e-5));
  EXPECT_FALSE(keeps_type(Op::swiglu, x));
}

}  // namespace
}  // namespace binade
