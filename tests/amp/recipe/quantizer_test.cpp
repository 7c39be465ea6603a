#include "binade/amp/recipe/quantizer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "binade/backend/backend.h"
#include "binade/binade.h"
#include "binade/io/safetensors.h"
#include "support/paths.h"

namespace binade {
namespace {

using amp::Delayed;
using amp::Role;
using amp::ScaleRule;
using amp::TensorRecipe;

const io::SafetensorsFile& golden() {
  static const io::SafetensorsFile file(test::golden_dir() + "/fp8.safetensors");
  return file;
}

// Step t of a recorded tensor [steps, ...].
Tensor at_step(const Tensor& all, int64_t t) { return contiguous(select(all, 0, t)); }

struct Stream {
  std::string name;
  std::string input;
  DType dtype;
};

const std::vector<Stream> streams = {{"x", "in/x", DType::e4m3},
                                     {"w", "in/w", DType::e4m3},
                                     {"g", "in/g", DType::e5m2},
                                     {"g_e4m3", "in/g", DType::e4m3}};

// Bytes agree; any two NaNs do.
void expect_bytes(const Tensor& data, const Tensor& expected, DType dtype) {
  ASSERT_EQ(data.numel(), expected.numel());
  const auto* found = static_cast<const uint8_t*>(data.raw_data());
  const auto* reference = expected.data<uint8_t>();
  for (int64_t i = 0; i < data.numel(); ++i) {
    const auto value = [dtype](uint8_t bits) {
      return dtype == DType::e4m3 ? float(e4m3::from_bits(bits)) : float(e5m2::from_bits(bits));
    };
    if (std::isnan(value(reference[i])) && std::isnan(value(found[i]))) continue;
    ASSERT_EQ(int{found[i]}, int{reference[i]}) << "element " << i;
  }
}

void roll(amp::ScaleStream& stream, const TensorRecipe& recipe) {
  const backend::DelayedScale rolled[] = {
      {.history = stream.history,
       .pending = stream.pending,
       .dropped = stream.dropped,
       .scale = stream.scale,
       .scale_inv = stream.scale_inv,
       .max_value = recipe.format == formats::spec::e4m3 ? 448.0 : 57344.0,
       .rule = amp::delayed_rule(recipe)}};
  backend::of(stream.scale).quantize.roll({rolled, 1});
}

class DelayedGolden : public ::testing::TestWithParam<std::tuple<int, bool, int>> {};

TEST_P(DelayedGolden, ScalesHistoriesAndBytesOfThirtySteps) {
  const auto [history, newest, margin] = GetParam();
  const std::string recipe_name = "delayed_" + std::to_string(history) +
                                  (newest ? "_most_recent" : "_max") + "_margin" +
                                  std::to_string(margin);
  for (const Stream& stream : streams) {
    SCOPED_TRACE(recipe_name + "/" + stream.name);
    const std::string prefix = recipe_name + "/" + stream.name + "/";
    const Tensor inputs = golden().load(stream.input), scales = golden().load(prefix + "scale");
    const Tensor bytes = golden().load(prefix + "data"),
                 dropped = golden().load(prefix + "dropped");
    const TensorRecipe recipe{
        .format = format_of(stream.dtype),
        .source = Delayed{.history = history, .newest = newest, .margin = margin}};
    amp::ScaleStream state;
    state.create(history, Device::cpu());
    for (int64_t t = 0; t < inputs.size(0); ++t) {
      SCOPED_TRACE(t);
      ASSERT_EQ(state.scale.item(), scales.data<float>()[t]);
      const Quantized q = amp::Quantizer{recipe, state, true, false}.quantize(at_step(inputs, t));
      expect_bytes(q.data, at_step(bytes, t), stream.dtype);
      roll(state, recipe);
      ASSERT_EQ(state.dropped.item(), static_cast<double>(dropped.data<int64_t>()[t]));
      if (::testing::Test::HasFailure()) return;
    }
    EXPECT_EQ(state.scale.item(), golden().load(prefix + "next_scale").item());
    const Tensor past = golden().load(prefix + "history");
    for (int64_t i = 0; i < past.numel(); ++i)
      EXPECT_EQ(state.history.data<float>()[i], past.data<float>()[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Quantizer, DelayedGolden,
                         ::testing::Combine(::testing::Values(16, 1024), ::testing::Bool(),
                                            ::testing::Values(0, 1)));

struct GroupCase {
  std::string name;
  TensorRecipe recipe;
};

TEST(QuantizerGolden, CurrentRowBlockAndMxOfThirtySteps) {
  constexpr ScaleRule power_of_two = ScaleRule::power_of_two;
  const std::vector<GroupCase> cases = {
      {"current", {}},
      {"current_pow2", {.rule = power_of_two}},
      {"current_eps", {.eps = 1e-3}},
      {"row", {.group = {1, 0}}},
      {"row_pow2", {.group = {1, 0}, .rule = power_of_two}},
      {"block_1x128", {.group = {1, 128}, .rule = power_of_two}},
      {"mxfp8", {.group = {1, 32}, .scale = formats::spec::e8m0, .rule = ScaleRule::mx_floor}}};
  for (const GroupCase& group : cases) {
    for (const Stream& stream : streams) {
      const std::string prefix = group.name + "/" + stream.name + "/";
      if (golden().find(prefix + "data") == nullptr) continue;
      const Tensor inputs = golden().load(stream.input), bytes = golden().load(prefix + "data");
      const Tensor scales = golden().load(
          prefix + (group.recipe.rule == ScaleRule::mx_floor ? "scale" : "scale_inv"));
      TensorRecipe recipe = group.recipe;
      recipe.format = format_of(stream.dtype);
      for (int64_t t = 0; t < inputs.size(0); ++t) {
        SCOPED_TRACE(prefix + " step " + std::to_string(t));
        const Quantized q = quantize(at_step(inputs, t), recipe);
        ASSERT_EQ(to_vector(q.scale_inv), to_vector(at_step(scales, t)));
        expect_bytes(q.data, at_step(bytes, t), stream.dtype);
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
  const Quantized blocks =
      quantize(golden().load("in/big_w"), {.group = {128, 128}, .rule = power_of_two});
  expect_bytes(blocks.data, golden().load("block_128x128/big_w/data"), DType::e4m3);
  EXPECT_EQ(to_vector(blocks.scale_inv), to_vector(golden().load("block_128x128/big_w/scale_inv")));
}

TEST(Quantizer, AnInfiniteAmaxDoesNotFreezeTheScale) {
  amp::ScaleStream state;
  state.create(1024, Device::cpu());
  const TensorRecipe recipe{.source = Delayed{.history = 1024}};
  const auto step = [&](double value) {
    amp::Quantizer{recipe, state, true, false}.quantize(full({1, 4}, value));
    roll(state, recipe);
  };
  step(2);
  EXPECT_EQ(state.scale.item(), 224);
  step(std::numeric_limits<double>::infinity());
  EXPECT_EQ(state.scale.item(), 224);
  EXPECT_EQ(state.dropped.item(), 1);
  step(4);
  EXPECT_EQ(state.scale.item(), 112);
}

TEST(Quantizer, TinyAmaxesCountAsTheRecipesEpsilon) {
  const TensorRecipe recipe{.eps = 2};
  amp::ScaleStream unused;
  const amp::Quantizer quantizer{recipe, unused, false, false};
  const Quantized tiny = quantizer.quantize(full({2, 4}, 1e-3));
  EXPECT_FLOAT_EQ(static_cast<float>(tiny.scale_inv.item()), 2 / 448.0f);
}

// Kernels do not run over an empty tensor, so nothing but the quantizer itself writes its scales.
TEST(Quantizer, ScalesOfEmptyTensorsAreOne) {
  int scales = 0;
  for (const amp::Recipe* builtin : amp::recipes::all()) {
    amp::Recipe recipe = *builtin;
    recipe.set_head(true);
    for (const Role role : amp::all_roles) {
      if (!recipe.tensors[role] || role == Role::head_gradient) continue;  // a constant scale
      for (const Shape& shape : {Shape{0, 8}, Shape{8, 0}}) {
        for (const bool transposes : {false, true}) {
          if (transposes && !recipe[role].is_per_tensor()) continue;
          SCOPED_TRACE(recipe.name + " " + std::string(amp::name(role)) + to_string(shape));
          amp::ScaleStream stream;
          if (recipe[role].is_delayed()) stream.create(16, Device::cpu());
          const Quantized q =
              amp::Quantizer{recipe[role], stream, false, transposes}.quantize(zeros(shape));
          EXPECT_EQ(q.shape, shape);
          check_quantized(q);
          EXPECT_EQ(q.transposed.defined(), transposes);
          const Shape of_scales = scale_shape(shape, recipe[role].group);
          EXPECT_EQ(q.scale_inv.shape(), of_scales);
          EXPECT_EQ(to_vector(q.scale_inv),
                    std::vector<double>(static_cast<size_t>(of_scales.numel()), 1));
          scales += static_cast<int>(of_scales.numel());
        }
      }
    }
  }
  // Per tensor and per row there are some, although there are no elements.
  EXPECT_GT(scales, 0);
}

}  // namespace
}  // namespace binade
