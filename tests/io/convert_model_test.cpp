#include "binade/io/convert_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/autograd/grad_mode.h"
#include "binade/base/error.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "io/temporary_folder.h"
#include "support/error_of.h"

namespace binade::io {
namespace {

using testing::content_of;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

nn::Llama small_llama() {
  return nn::Llama({.layers = 2,
                    .width = 16,
                    .heads = 4,
                    .kv_heads = 2,
                    .hidden = 24,
                    .vocab = 20,
                    .context = 8});
}

std::vector<double> logits_of(nn::LanguageModel& model) {
  return to_vector(model.logits(randint(0, 20, {1, 8}, {3, 0})));
}

TEST(Convert, KeepsTheModelAndTheTokenizer) {
  const TemporaryFolder folder;
  nn::Llama model = small_llama();
  save_pretrained(model, folder / "a");
  folder.put("a/tokenizer.json", "{}");
  const Converted done = convert_pretrained(folder / "a", folder / "b");
  EXPECT_EQ(done.dtype, DType::f32);
  EXPECT_EQ(done.parameters, model.parameter_count());
  EXPECT_EQ(content_of(folder / "b/tokenizer.json"), "{}");
  EXPECT_EQ(content_of(folder / "a/model.safetensors"), content_of(folder / "b/model.safetensors"));
  EXPECT_TRUE(std::filesystem::exists(folder / "b/generation_config.json"));
  EXPECT_EQ(logits_of(*load_pretrained(folder / "b")), logits_of(model));
}

TEST(Convert, WritesTheTypeAskedFor) {
  const TemporaryFolder folder;
  save_pretrained(small_llama(), folder / "a");
  EXPECT_EQ(convert_pretrained(folder / "a", folder / "b", {.dtype = DType::bf16}).dtype,
            DType::bf16);
  EXPECT_EQ(stored_type(folder / "b"), DType::bf16);
  EXPECT_THAT(content_of(folder / "b/config.json"), HasSubstr("bfloat16"));
  EXPECT_EQ(convert_pretrained(folder / "b", folder / "c").dtype, DType::bf16);
}

// f16 and bf16 together need f32, in whatever order they come.
TEST(Convert, KnowsTheTypeOfAMixedModel) {
  const TemporaryFolder folder;
  const auto stored = [&](const std::vector<DType>& types) {
    StateDict weights;
    for (const DType type : types)
      weights["weight" + std::to_string(weights.size())] = zeros({3}, type);
    weights["h.0.attn.bias"] = zeros({3}, DType::f64);  // a buffer, not a weight
    weights["ids"] = zeros({3}, DType::i64);
    save_safetensors(folder / "model.safetensors", weights);
    return stored_type(folder.path());
  };
  EXPECT_EQ(stored({DType::bf16, DType::bf16}), DType::bf16);
  EXPECT_EQ(stored({DType::f32, DType::bf16}), DType::f32);
  EXPECT_EQ(stored({DType::bf16, DType::f32}), DType::f32);
  EXPECT_EQ(stored({DType::f16, DType::bf16}), DType::f32);
  EXPECT_EQ(stored({}), DType::f32);
}

TEST(Convert, ReplacesAModelOnlyWhenForced) {
  const TemporaryFolder folder;
  save_pretrained(small_llama(), folder / "a");
  convert_pretrained(folder / "a", folder / "b");
  const std::string before = content_of(folder / "b/model.safetensors");
  EXPECT_THAT(test::error_of(
                  [&] { convert_pretrained(folder / "a", folder / "b", {.dtype = DType::bf16}); }),
              HasSubstr("--force"));
  EXPECT_EQ(content_of(folder / "b/model.safetensors"), before);
  convert_pretrained(folder / "a", folder / "b", {.dtype = DType::bf16, .force = true});
  EXPECT_EQ(stored_type(folder / "b"), DType::bf16);
  folder.put("b/tokenizer.json", "another model's");
  convert_pretrained(folder / "a", folder / "b", {.force = true});
  EXPECT_FALSE(std::filesystem::exists(folder / "b/tokenizer.json"));
  EXPECT_THAT(
      test::error_of([&] { convert_pretrained(folder / "a", folder / "a", {.force = true}); }),
      HasSubstr("another folder"));
}

TEST(Convert, RefusesWeightsThatDoNotFit) {
  const TemporaryFolder folder;
  nn::Llama model = small_llama();
  {
    const NoGrad no_grad;
    fill_(model.head_weight(), 1e6);
  }
  save_pretrained(model, folder / "a");
  EXPECT_THAT(test::error_of(
                  [&] { convert_pretrained(folder / "a", folder / "b", {.dtype = DType::f16}); }),
              ::testing::AllOf(HasSubstr("head"), HasSubstr("bf16")));
  EXPECT_FALSE(std::filesystem::exists(folder / "b/config.json"));
  EXPECT_NO_THROW(convert_pretrained(folder / "a", folder / "b", {.dtype = DType::bf16}));
}

TEST(LoadWeights, AShorterContextTakesTheFirstPositions) {
  const TemporaryFolder folder;
  // Wider than long, so that the two are told apart.
  const nn::GPTConfig config{.layers = 1, .width = 12, .heads = 2, .vocab = 20, .context = 8};
  nn::GPT whole(config);
  save_pretrained(whole, folder / "a");
  nn::GPTConfig cut = config;
  cut.context = 5;
  cut.seed = 9;
  nn::GPT shorter(cut);
  load_weights(shorter, folder / "a");
  const Tensor tokens = randint(0, 20, {1, 5}, {3, 0});
  EXPECT_EQ(to_vector(shorter.logits(tokens)), to_vector(whole.logits(tokens)));
  nn::GPTConfig longer = config;
  longer.context = 9;
  nn::GPT too_long(longer);
  EXPECT_THROW(load_weights(too_long, folder / "a"), Error);
}

}  // namespace
}  // namespace binade::io
