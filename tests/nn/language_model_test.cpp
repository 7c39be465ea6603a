#include "binade/nn/language_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "binade/binade.h"
#include "support/error_of.h"

namespace binade::nn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr GPTConfig tiny_gpt{.layers = 2, .width = 16, .heads = 2, .vocab = 11, .context = 8};
constexpr LlamaConfig tiny_llama{
    .layers = 2, .width = 16, .heads = 4, .kv_heads = 2, .hidden = 24, .vocab = 11, .context = 8};

Tensor some_tokens(int64_t batch, int64_t tokens, uint64_t stream = 0, int64_t vocab = 11) {
  return randint(0, vocab, {batch, tokens}, {7, stream});
}

TEST(LanguageModel, HasTheKnownParameterCounts) {
  EXPECT_EQ(GPT({}, Device::meta()).parameter_count(), 124'439'808);
  EXPECT_EQ(GPT({.layers = 24, .width = 1024, .heads = 16}, Device::meta()).parameter_count(),
            354'823'168);
  EXPECT_EQ(GPT({.layers = 48, .width = 1600, .heads = 25}, Device::meta()).parameter_count(),
            1'557'611'200);
  // Llama 2, 7B.
  const LlamaConfig seven{
      .layers = 32, .width = 4096, .heads = 32, .hidden = 11008, .vocab = 32000, .context = 4096};
  EXPECT_EQ(Llama(seven, Device::meta()).parameter_count(), 6'738'415'616);
  // Llama 3.2, 1B: grouped keys, tied head.
  const LlamaConfig one{.layers = 16,
                        .width = 2048,
                        .heads = 32,
                        .kv_heads = 8,
                        .hidden = 8192,
                        .vocab = 128256,
                        .context = 4096,
                        .tied_head = true};
  EXPECT_EQ(Llama(one, Device::meta()).parameter_count(), 1'235'814'400);
}

TEST(LanguageModel, NamesArePathsOfItsParts) {
  GPT gpt(tiny_gpt);
  const StateDict state = gpt.state_dict();
  for (const char* name :
       {"embedding.weight", "positions.weight", "blocks.0.norm1.weight",
        "blocks.0.attention.qkv.bias", "blocks.1.attention.out.weight", "blocks.1.norm2.bias",
        "blocks.1.mlp.up.weight", "blocks.1.mlp.down.bias", "norm.weight", "norm.bias"}) {
    EXPECT_TRUE(state.contains(name)) << name;
  }
  EXPECT_EQ(state.size(), 4u + 2 * 12u);
  Llama llama(tiny_llama);
  const StateDict other = llama.state_dict();
  EXPECT_TRUE(other.contains("head"));
  EXPECT_EQ(other.size(), 3u + 2 * 6u);
}

TEST(LanguageModel, TheLossIsTheCrossEntropyOfTheLogits) {
  GPT gpt(tiny_gpt);
  Llama llama(tiny_llama);
  for (LanguageModel* model :
       {static_cast<LanguageModel*>(&gpt), static_cast<LanguageModel*>(&llama)}) {
    const Tensor tokens = some_tokens(3, 8), targets = some_tokens(3, 8, 1);
    EXPECT_EQ(model->logits(tokens).shape(), (Shape{3, 8, 11}));
    for (const CrossEntropyOptions& options :
         {CrossEntropyOptions{},
          CrossEntropyOptions{.reduce = Reduce::sum, .smoothing = 0.1, .ignore_index = 3}}) {
      const double expected = cross_entropy(model->logits(tokens), targets, options).item();
      EXPECT_NEAR(model->loss(tokens, targets, options).item(), expected,
                  16 * epsilon(DType::f32) * expected);
    }
    // Small initial weights: close to a uniform guess.
    EXPECT_NEAR(model->loss(tokens, targets).item(), std::log(11), 0.2);
  }
}

// GPT-2's: 0.02, and for the two projections of a block into the residual stream 0.02 / sqrt(2
// layers).
TEST(LanguageModel, StartsWithTheDeviationsOfGpt2) {
  GPT model({.layers = 8, .width = 64, .heads = 2, .vocab = 100, .context = 16});
  const StateDict state = model.state_dict();
  const std::pair<const char*, double> expected[] = {{"embedding.weight", 0.02},
                                                     {"positions.weight", 0.02},
                                                     {"blocks.3.attention.qkv.weight", 0.02},
                                                     {"blocks.3.mlp.up.weight", 0.02},
                                                     {"blocks.3.attention.out.weight", 0.005},
                                                     {"blocks.3.mlp.down.weight", 0.005}};
  for (const auto& [name, deviation] : expected) {
    double squares = 0;
    const std::vector<double> values = to_vector(state.at(name));
    for (const double value : values) squares += value * value;
    const auto count = static_cast<double>(values.size());
    EXPECT_NEAR(std::sqrt(squares / count), deviation, 5 * deviation / std::sqrt(2 * count))
        << name;
  }
}

// Blocks that a recipe leaves out have no delayed scales.
TEST(LanguageModel, LeavesBlocksAtItsEndsOutOfARecipe) {
  for (const auto& [first, last] : {std::pair(0, 0), {1, 0}, {0, 2}, {1, 2}, {2, 2}}) {
    GPT model({.layers = 4, .width = 16, .heads = 2, .vocab = 11, .context = 8});
    {
      amp::Recipe recipe = amp::recipes::delayed();
      recipe.skip_first = first;
      recipe.skip_last = last;
      const amp::QuantizedAutocast fp8(recipe);
      model.loss(some_tokens(2, 8), some_tokens(2, 8, 1)).backward();
    }
    std::set<int> blocks, expected;
    for (const auto& [name, buffer] : model.named_buffers()) {
      if (name.starts_with("blocks.")) blocks.insert(name[7] - '0');
    }
    for (int i = first; i < 4 - last; ++i) expected.insert(i);
    EXPECT_EQ(blocks, expected) << first << " and " << last;
  }
}

TEST(LanguageModel, EveryParameterGetsAGradient) {
  GPT gpt(tiny_gpt);
  Llama llama(tiny_llama);
  for (LanguageModel* model :
       {static_cast<LanguageModel*>(&gpt), static_cast<LanguageModel*>(&llama)}) {
    model->loss(some_tokens(2, 8), some_tokens(2, 8, 1)).backward();
    for (const auto& [name, parameter] : model->named_parameters()) {
      ASSERT_TRUE(parameter.grad().defined()) << name;
      const std::vector<double> gradient = to_vector(parameter.grad());
      EXPECT_TRUE(std::any_of(gradient.begin(), gradient.end(), [](double g) { return g != 0; }))
          << name;
    }
  }
}

TEST(LanguageModel, TokensDoNotSeeTheFuture) {
  Llama model(tiny_llama);
  const Tensor tokens = some_tokens(1, 8);
  Tensor changed = clone(tokens);
  changed.mutable_data<int64_t>()[6] = (changed.data<int64_t>()[6] + 1) % 11;
  const std::vector<double> a = to_vector(model.logits(tokens)),
                            b = to_vector(model.logits(changed));
  EXPECT_TRUE(std::equal(a.begin(), a.begin() + 6 * 11, b.begin()));
  EXPECT_FALSE(std::equal(a.begin() + 6 * 11, a.end(), b.begin() + 6 * 11));
}

TEST(LanguageModel, LearnsUnderAutocast) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    GPT model(tiny_gpt);
    optim::AdamW optimizer(model.parameters(), {.lr = 1e-2});
    const Tensor tokens = some_tokens(4, 8), targets = some_tokens(4, 8, 1);
    double first = 0, last = 0;
    for (int step = 0; step < 60; ++step) {
      optimizer.zero_grad();
      const Tensor loss = [&] {
        const amp::Autocast cast(dtype);
        return model.loss(tokens, targets);
      }();
      EXPECT_EQ(loss.dtype(), DType::f32);
      loss.backward();
      optimizer.step();
      last = loss.item();
      if (step == 0) first = last;
    }
    EXPECT_LT(last, 0.25 * first) << name(dtype);
  }
}

TEST(LanguageModel, LearnsWithBf16ParametersAndMasters) {
  Llama model(tiny_llama, Device::cpu(), DType::bf16);
  optim::AdamW optimizer(model.parameters(), {.lr = 1e-2});
  const Tensor tokens = some_tokens(4, 8), targets = some_tokens(4, 8, 1);
  const double first = model.loss(tokens, targets).item();
  for (int step = 0; step < 60; ++step) {
    optimizer.zero_grad();
    model.loss(tokens, targets).backward();
    optimizer.step();
  }
  EXPECT_LT(model.loss(tokens, targets).item(), 0.25 * first);
}

TEST(LanguageModel, DropoutActsInTrainingAndIsRepeatable) {
  GPTConfig config = tiny_gpt;
  config.dropout = 0.5;
  GPT model(config);
  const Tensor tokens = some_tokens(2, 8);
  const auto at = [&](uint64_t step) {
    random::begin_step(1, step);
    return to_vector(model.logits(tokens));
  };
  EXPECT_EQ(at(1), at(1));
  EXPECT_NE(at(1), at(2));
  model.eval();
  EXPECT_EQ(at(1), at(2));
}

TEST(LanguageModel, RecomputeWithDropoutChangesNoBit) {
  GPTConfig config = tiny_gpt;
  config.dropout = 0.5;
  GPT model(config);
  const auto gradients = [&](bool recompute) {
    model.set_activations(nn::Activations::recompute(recompute));
    model.zero_grad();
    random::begin_step(1, 5);
    model.loss(some_tokens(2, 8), some_tokens(2, 8, 1)).backward();
    std::vector<std::vector<double>> result;
    for (const Tensor& parameter : model.parameters())
      result.push_back(to_vector(parameter.grad()));
    return result;
  };
  EXPECT_EQ(gradients(false), gradients(true));
}

// Gemma's factor sqrt(width) is rounded to the type of the embedding: 4.47 is 4.46875 in bf16.
TEST(LanguageModel, TheEmbeddingScaleHasTheEmbeddingsType) {
  const auto logits = [](double scale, DType dtype) {
    LanguageModelConfig config = GPT(tiny_gpt).config();
    config.embedding_scale = scale;
    LanguageModel model(config, {Device::cpu(), dtype});
    return to_vector(model.logits(some_tokens(2, 8)));
  };
  const double exact = std::sqrt(20.0), rounded = 4.46875;
  EXPECT_EQ(logits(exact, DType::bf16), logits(rounded, DType::bf16));
  EXPECT_NE(logits(exact, DType::f32), logits(rounded, DType::f32));
  EXPECT_NE(logits(rounded, DType::bf16), logits(1, DType::bf16));
}

TEST(LanguageModel, ResidualStreamHasTheTypeAsked) {
  const auto residual_type = [](std::optional<DType> asked, DType parameters) {
    GPTConfig config = tiny_gpt;
    config.residual = asked;
    GPT model(config, Device::cpu(), parameters);
    const amp::Autocast cast(DType::bf16);
    std::optional<DType> found;
    for (const amp::TracedOp& op :
         amp::explain([&] { model.loss(some_tokens(1, 4), some_tokens(1, 4, 1)); })) {
      if (op.op == Op::residual_layer_norm && op.module == "blocks.1.norm1") found = op.outputs[0];
    }
    return found;
  };
  for (const DType parameters : {DType::f32, DType::bf16}) {
    EXPECT_EQ(residual_type(DType::f32, parameters), DType::f32);
    EXPECT_EQ(residual_type(DType::bf16, parameters), DType::bf16);
    EXPECT_EQ(residual_type({}, parameters), parameters);
  }
}

// --- the meta device ---

TEST(LanguageModelOnMeta, AStepOfGpt2TakesNoMemory) {
  const int64_t host = memory::allocated(), host_misses = memory::statistics().misses;
  GPT model({}, Device::meta());
  const int64_t parameters = memory::allocated(memory::Category::parameters, Device::meta());
  EXPECT_EQ(parameters, 4 * 124'439'808LL);
  optim::AdamW optimizer(model.parameters(), {.lr = 1e-3});
  EXPECT_EQ(memory::allocated(memory::Category::optimizer, Device::meta()), 2 * parameters);
  memory::reset_peak(Device::meta());
  const Tensor tokens = Tensor::empty({4, 1024}, DType::i64, Device::meta());
  const Tensor loss = [&] {
    const amp::Autocast cast(DType::bf16);
    return model.loss(tokens, tokens);
  }();
  EXPECT_EQ(loss.shape(), Shape{});
  const int64_t activations = memory::allocated(memory::Category::activations, Device::meta());
  loss.backward();
  optimizer.step();
  EXPECT_EQ(memory::allocated(memory::Category::gradients, Device::meta()), parameters);
  // About 34 bytes per layer, token and channel in 16 bits; attention stores no scores.
  const int64_t stream = 4 * 1024 * 768;
  EXPECT_GT(activations, 12 * 20 * stream);
  EXPECT_LT(activations, 12 * 60 * stream);
  EXPECT_GT(memory::peak(Device::meta()), 4 * parameters);
  EXPECT_EQ(memory::allocated(), host);
  EXPECT_LE(memory::statistics().misses, host_misses + 8);
}

TEST(LanguageModelOnMeta, RecomputeSavesActivations) {
  const auto activations = [](bool recompute) {
    GPT model({.layers = 12,
               .width = 768,
               .heads = 12,
               .activations = nn::Activations::recompute(recompute)},
              Device::meta());
    const Tensor tokens = Tensor::empty({4, 1024}, DType::i64, Device::meta());
    const int64_t before = memory::allocated(memory::Category::activations, Device::meta());
    const Tensor loss = model.loss(tokens, tokens);
    return memory::allocated(memory::Category::activations, Device::meta()) - before;
  };
  EXPECT_LT(activations(true), activations(false) / 3);
}

TEST(LanguageModelOnMeta, AModelCanBeMovedThere) {
  Llama model(tiny_llama);
  model.to(Device::meta());
  const Tensor tokens = Tensor::empty({2, 8}, DType::i64, Device::meta());
  EXPECT_EQ(model.logits(tokens).shape(), (Shape{2, 8, 11}));
}

// --- bad input ---

TEST(LanguageModelInput, RefusesBadConfigurations) {
  const auto message = [](LanguageModelConfig config) {
    try {
      LanguageModel model(config, {Device::meta()});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  const LanguageModelConfig good{
      .layers = 1, .width = 12, .heads = 3, .hidden = 16, .vocab = 5, .context = 4};
  EXPECT_EQ(message(good), "no error");
  const auto with = [&](auto change) {
    LanguageModelConfig config = good;
    change(config);
    return message(config);
  };
  EXPECT_THAT(with([](auto& c) {
                c.layer_types = {LayerAttention::full, LayerAttention::full};
              }),
              HasSubstr("layer_types: expected one for each of the 1 layers"));
  EXPECT_THAT(with([](auto& c) { c.layers = 0; }),
              HasSubstr("layers: expected at least 1, found 0"));
  EXPECT_THAT(with([](auto& c) { c.width = -4; }), HasSubstr("width"));
  EXPECT_THAT(with([](auto& c) { c.heads = 0; }), HasSubstr("heads"));
  EXPECT_THAT(with([](auto& c) { c.hidden = 0; }), HasSubstr("hidden"));
  EXPECT_THAT(with([](auto& c) { c.vocab = 0; }), HasSubstr("vocab"));
  EXPECT_THAT(with([](auto& c) { c.context = 0; }), HasSubstr("context"));
  EXPECT_THAT(with([](auto& c) { c.heads = 5; }), HasSubstr("a divisor of the width 12, found 5"));
  EXPECT_THAT(with([](auto& c) { c.kv_heads = 2; }), HasSubstr("kv_heads"));
  EXPECT_THAT(with([](auto& c) { c.dropout = 1; }), HasSubstr("dropout"));
  EXPECT_THAT(with([](auto& c) { c.dropout = NAN; }), HasSubstr("dropout"));
  EXPECT_THAT(with([](auto& c) { c.learned_positions = false, c.heads = 4; }),
              HasSubstr("even head dimension"));
  EXPECT_THAT(with([](auto& c) { c.learned_positions = false, c.rope_theta = 0; }),
              HasSubstr("theta"));
}

TEST(LanguageModelInput, RefusesBadTokens) {
  GPT model(tiny_gpt);
  EXPECT_THAT(test::error_of([&] { model.logits(some_tokens(1, 9)); }),
              AllOf(HasSubstr("at most 8 per sequence"), HasSubstr("[1, 9]")));
  EXPECT_THAT(test::error_of([&] {
                model.logits(tensor({1, 2}, {2}, DType::i64));
              }),
              HasSubstr("[batch, tokens]"));
  EXPECT_THAT(test::error_of([&] { model.logits({}); }), HasSubstr("[batch, tokens]"));
  EXPECT_THROW(model.logits(tensor({11}, {1, 1}, DType::i64)), Error);
  EXPECT_THROW(model.logits(tensor({-1}, {1, 1}, DType::i64)), Error);
  EXPECT_THROW(model.logits(ones({1, 4})), Error);
  EXPECT_THROW(model.loss(some_tokens(1, 4), some_tokens(1, 5)), Error);
  EXPECT_THROW(model.loss(some_tokens(1, 4), full({1, 4}, 11, DType::i64)), Error);
}

}  // namespace
}  // namespace binade::nn
