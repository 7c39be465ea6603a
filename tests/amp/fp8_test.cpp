#include "binade/amp/recipe/state.h"

#include <gtest/gtest.h>

#include <cmath>

#include "binade/amp/recipe/layer_scales.h"
#include "binade/backend/backend.h"
#include "binade/binade.h"
#include "binade/io/safetensors.h"

namespace binade {
namespace {

using amp::Recipe;
using amp::Role;
using amp::Fp8Scaling;

const io::SafetensorsFile& golden() {
  static const io::SafetensorsFile file(std::string(BINADE_GOLDEN_DIR) + "/fp8.safetensors");
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

void roll(amp::ScaleStream& stream, double max_value, backend::DelayedRule rule = {}) {
  const backend::DelayedScale rolled[] = {{.history = stream.history,
                                           .pending = stream.pending,
                                           .dropped = stream.dropped,
                                           .scale = stream.scale,
                                           .scale_inv = stream.scale_inv,
                                           .max_value = max_value,
                                           .rule = rule}};
  backend::of(stream.scale).quantize.roll({rolled, 1});
}

class DelayedGolden : public ::testing::TestWithParam<std::tuple<int, bool, int>> {};

TEST_P(DelayedGolden, ScalesHistoriesAndBytesOfThirtySteps) {
  const auto [history, most_recent, margin] = GetParam();
  const std::string recipe_name = "delayed_" + std::to_string(history) +
                                  (most_recent ? "_most_recent" : "_max") + "_margin" +
                                  std::to_string(margin);
  for (const Stream& stream : streams) {
    SCOPED_TRACE(recipe_name + "/" + stream.name);
    const std::string prefix = recipe_name + "/" + stream.name + "/";
    const Tensor inputs = golden().load(stream.input), scales = golden().load(prefix + "scale");
    const Tensor bytes = golden().load(prefix + "data"),
                 dropped = golden().load(prefix + "dropped");
    const Recipe recipe{.history = history, .most_recent = most_recent, .margin = margin};
    const Role role = stream.dtype == DType::e5m2 ? Role::gradient : Role::input;
    amp::ScaleStream state;
    state.create(history, Device::cpu());
    for (int64_t t = 0; t < inputs.size(0); ++t) {
      SCOPED_TRACE(t);
      ASSERT_EQ(state.scale.item(), scales.data<float>()[t]);
      const Quantized q = amp::Quantizer{recipe, role, state, true}.quantize(at_step(inputs, t));
      expect_bytes(q.data, at_step(bytes, t), stream.dtype);
      roll(state, stream.dtype == DType::e4m3 ? 448 : 57344, {margin, most_recent});
      ASSERT_EQ(state.dropped.item(), static_cast<double>(dropped.data<int64_t>()[t]));
      if (::testing::Test::HasFailure()) return;
    }
    EXPECT_EQ(state.scale.item(), golden().load(prefix + "next_scale").item());
    const Tensor past = golden().load(prefix + "history");
    for (int64_t i = 0; i < past.numel(); ++i)
      EXPECT_EQ(state.history.data<float>()[i], past.data<float>()[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Fp8, DelayedGolden,
                         ::testing::Combine(::testing::Values(16, 1024), ::testing::Bool(),
                                            ::testing::Values(0, 1)));

struct GroupCase {
  std::string recipe;
  QuantizeOptions options;
};

TEST(Fp8Golden, CurrentRowBlockAndMxOfThirtySteps) {
  const std::vector<GroupCase> cases = {{"current", {}},
                                        {"current_pow2", {.power_of_two = true}},
                                        {"current_eps", {.eps = 1e-3}},
                                        {"row", {.group = {1, 0}}},
                                        {"row_pow2", {.group = {1, 0}, .power_of_two = true}},
                                        {"block_1x128", {.group = {1, 128}, .power_of_two = true}},
                                        {"mxfp8", {.mx = true}}};
  for (const GroupCase& group : cases) {
    for (const Stream& stream : streams) {
      const std::string prefix = group.recipe + "/" + stream.name + "/";
      if (golden().find(prefix + "data") == nullptr) continue;
      const Tensor inputs = golden().load(stream.input), bytes = golden().load(prefix + "data");
      const Tensor scales = golden().load(prefix + (group.options.mx ? "scale" : "scale_inv"));
      QuantizeOptions options = group.options;
      options.dtype = stream.dtype;
      for (int64_t t = 0; t < inputs.size(0); ++t) {
        SCOPED_TRACE(prefix + " step " + std::to_string(t));
        const Quantized q = quantize(at_step(inputs, t), options);
        ASSERT_EQ(to_vector(q.scale_inv), to_vector(at_step(scales, t)));
        expect_bytes(q.data, at_step(bytes, t), stream.dtype);
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
  const Quantized blocks =
      quantize(golden().load("in/big_w"), {.group = {128, 128}, .power_of_two = true});
  expect_bytes(blocks.data, golden().load("block_128x128/big_w/data"), DType::e4m3);
  EXPECT_EQ(to_vector(blocks.scale_inv), to_vector(golden().load("block_128x128/big_w/scale_inv")));
}

TEST(Fp8, AnInfiniteAmaxDoesNotFreezeTheScale) {
  amp::ScaleStream state;
  state.create(1024, Device::cpu());
  const Recipe recipe;
  const auto step = [&](double value) {
    amp::Quantizer{recipe, Role::input, state, true}.quantize(full({1, 4}, value));
    roll(state, 448);
  };
  step(2);
  EXPECT_EQ(state.scale.item(), 224);
  step(std::numeric_limits<double>::infinity());
  EXPECT_EQ(state.scale.item(), 224);
  EXPECT_EQ(state.dropped.item(), 1);
  step(4);
  EXPECT_EQ(state.scale.item(), 112);
}

// The state of a small model after some steps in FP8.
std::vector<double> train(const Recipe& recipe, bool recompute, int64_t micro_batches,
                          int steps = 3) {
  nn::GPT model({.layers = 2,
                 .width = 32,
                 .heads = 2,
                 .vocab = 64,
                 .context = 16,
                 .recompute = recompute,
                 .seed = 3});
  optim::AdamW adam(model.parameters(), {.lr = 1e-3});
  for (int step = 0; step < steps; ++step) {
    adam.zero_grad();
    for (int64_t i = 0; i < micro_batches; ++i) {
      const Tensor data = randint(0, 64, {2, 17}, {5, static_cast<uint64_t>(step * 10 + i)});
      const amp::Autocast autocast(DType::bf16);
      const amp::QuantizedAutocast fp8(recipe);
      mul(model.loss(slice(data, 1, 0, 16), slice(data, 1, 1, 17)),
          1.0 / static_cast<double>(micro_batches))
          .backward();
    }
    adam.step();
  }
  std::vector<double> values;
  for (const auto& [name, tensor] : model.state_dict()) {
    const auto more = to_vector(tensor);
    values.insert(values.end(), more.begin(), more.end());
  }
  return values;
}

const std::vector<Fp8Scaling> all_scalings = {Fp8Scaling::delayed, Fp8Scaling::current,
                                              Fp8Scaling::row, Fp8Scaling::block, Fp8Scaling::mx};

TEST(Fp8Training, RecomputeGivesTheSameBitsInEveryRecipe) {
  for (const Fp8Scaling scaling : all_scalings) {
    SCOPED_TRACE(amp::name(scaling));
    const Recipe recipe{.scaling = scaling, .history = 4};
    EXPECT_EQ(train(recipe, false, 2), train(recipe, true, 2));
  }
}

TEST(Fp8Training, EveryRecipeIsCloseToBf16AndNotEqualToIt) {
  const auto loss = [](const Recipe* recipe) {
    nn::Llama model({.layers = 2,
                     .width = 64,
                     .heads = 4,
                     .kv_heads = 2,
                     .hidden = 128,
                     .vocab = 64,
                     .context = 32,
                     .seed = 1});
    const Tensor data = randint(0, 64, {4, 33}, {9, 9});
    const amp::Autocast autocast(DType::bf16);
    const amp::QuantizedAutocast fp8(amp::RecipeState{.enabled = recipe != nullptr,
                                             .recipe = recipe == nullptr ? Recipe{} : *recipe});
    return model.loss(slice(data, 1, 0, 32), slice(data, 1, 1, 33)).item();
  };
  const double plain = loss(nullptr);
  for (const Fp8Scaling scaling : all_scalings) {
    for (const auto format : {amp::Fp8Format::hybrid, amp::Fp8Format::e4m3}) {
      const Recipe recipe{.scaling = scaling, .format = format};
      const double value = loss(&recipe);
      EXPECT_NE(value, plain) << amp::name(scaling);
      EXPECT_NEAR(value, plain, 0.02 * plain) << amp::name(scaling);
    }
  }
}

TEST(Fp8Training, HistoriesRollOncePerStepWhateverTheMicroBatches) {
  nn::Linear layer({.in = 8, .out = 8});
  optim::SGD sgd(layer.parameters(), {.lr = 0.1});
  const Recipe recipe{.history = 8};
  const auto history = [&] { return to_vector(layer.state_dict().at("fp8.input.history")); };
  const auto forward = [&](double size) {
    const amp::QuantizedAutocast fp8(recipe);
    sum(layer(full({2, 8}, size))).backward();
  };
  forward(1);
  forward(3);
  forward(2);
  EXPECT_EQ(history()[0], 0);  // nothing rolls before the weight changes
  sgd.step();
  EXPECT_EQ(history()[0], 3);  // the largest of the step
  EXPECT_EQ(history()[1], 0);
  sgd.zero_grad();
  forward(5);
  sgd.step({.gradient_factor = {}, .skip = ones({1})});
  EXPECT_EQ(history()[0], 3);  // a skipped step updates no scale
}

TEST(Fp8Training, SavedHistoriesContinueBitForBit) {
  const Recipe recipe{.history = 4};
  const auto make = [] {
    return std::make_unique<nn::Linear>(nn::LinearConfig{.in = 16, .out = 16});
  };
  const auto step = [&](nn::Linear& layer, optim::Optimizer& sgd, uint64_t t) {
    sgd.zero_grad();
    const amp::QuantizedAutocast fp8(recipe);
    sum(square(layer(randn({4, 16}, {2, t})))).backward();
    sgd.step();
  };
  auto one = make();
  optim::SGD sgd_one(one->parameters(), {.lr = 1e-3});
  for (uint64_t t = 0; t < 3; ++t) step(*one, sgd_one, t);
  auto two = make();
  two->load_state_dict(one->state_dict());
  optim::SGD sgd_two(two->parameters(), {.lr = 1e-3});
  for (uint64_t t = 3; t < 6; ++t) {
    step(*one, sgd_one, t);
    step(*two, sgd_two, t);
  }
  const StateDict a = one->state_dict(), b = two->state_dict();
  for (const auto& [name, tensor] : a) EXPECT_EQ(to_vector(tensor), to_vector(b.at(name))) << name;
}

TEST(Fp8Training, PathsProductsAndLayersCanBeLeftOut) {
  nn::Linear layer({.in = 8, .out = 8});
  const Tensor x = randn({4, 8}, {1, 1});
  const auto run = [&](const amp::RecipeState& state) {
    const amp::QuantizedAutocast fp8(state);
    const autograd::ModuleScope scope("block.3.mlp");
    return to_vector(layer(x));
  };
  const auto plain = run({});
  const Recipe recipe{.scaling = Fp8Scaling::current};
  EXPECT_NE(run({true, recipe, {}}), plain);
  Recipe excluded = recipe;
  excluded.exclude = {"block.3"};
  EXPECT_EQ(run({true, excluded, {}}), plain);
  excluded.exclude = {"block.33", "block.3.ml"};  // paths, not prefixes of text
  EXPECT_NE(run({true, excluded, {}}), plain);
  Recipe backward_only = recipe;
  backward_only.forward = false;
  EXPECT_EQ(run({true, backward_only, {}}), plain);
  EXPECT_EQ(run({true, recipe, {{"block.3", backward_only}}}), plain);
}

}  // namespace
}  // namespace binade
