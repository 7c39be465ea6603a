#include "binade/io/gguf/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "binade/io/gguf/architecture.h"
#include "binade/io/gguf/rope_divisors.h"
#include "binade/io/gguf/save.h"
#include "binade/io/huggingface.h"
#include "binade/io/huggingface_config.h"
#include "binade/io/model_folder.h"
#include "binade/io/safetensors.h"
#include "binade/ops/create/create.h"
#include "io/temporary_folder.h"
#include "support/error_of.h"

// Models that the gguf package wrote, with PyTorch's logits (tests/golden/gguf_files.py).

namespace binade::io::gguf {
namespace {

using ::binade::testing::golden;
using ::binade::testing::TemporaryFolder;
using ::testing::HasSubstr;

// A file, and the type of its matrices.
struct GoldenModel {
  const char* name;
  const char* type;
  const char* family;
};

std::filesystem::path golden_file(const std::string& name) {
  return golden("gguf/" + name + ".gguf");
}

class GgufModels : public ::testing::TestWithParam<GoldenModel> {};

TEST_P(GgufModels, LogitsAreThoseOfPyTorch) {
  const std::string name = GetParam().name;
  const auto model = load_pretrained(golden_file(name));
  EXPECT_EQ(model->config().family, GetParam().family);
  const SafetensorsFile recorded(golden("gguf.safetensors"));
  const std::vector<double> expected = to_vector(recorded.load(name + "/logits")),
                            found = to_vector(model->logits(recorded.load(name + "/tokens")));
  ASSERT_EQ(found.size(), expected.size());
  // Logits of magnitude 10 at most, summed over a few dozen products: f32 leaves about 1e-6.
  for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-5) << i;
}

// The same names, shapes, types and bytes, but for the head of 4-bit files.
TEST_P(GgufModels, AreWrittenAsTheGgufPackageWroteThem) {
  const auto& [name, type, family] = GetParam();
  const auto model = load_pretrained(golden_file(name));
  const TemporaryFolder folder;
  save(*model, folder / "again.gguf", {.type = find_tensor_type(type)});
  const File expected(golden_file(name)), found(folder / "again.gguf");
  EXPECT_EQ(found.tensors().size(), expected.tensors().size());
  for (const TensorInfo& tensor : expected.tensors()) {
    const TensorInfo* again = found.find(tensor.name);
    ASSERT_NE(again, nullptr) << tensor.name;
    EXPECT_EQ(again->shape, tensor.shape) << tensor.name;
    const bool is_head = std::string_view(type) == "Q4_0" && tensor.name == embedding_weight;
    EXPECT_EQ(again->type->name, is_head ? "Q8_0" : tensor.type->name) << tensor.name;
    if (is_head) continue;
    const auto before = expected.bytes(tensor), after = found.bytes(*again);
    EXPECT_TRUE(std::equal(before.begin(), before.end(), after.begin(), after.end()))
        << tensor.name;
  }
  EXPECT_EQ(config_json(read_config(found)), config_json(model->config()));
}

INSTANTIATE_TEST_SUITE_P(
    All, GgufModels,
    ::testing::Values(
        GoldenModel{"gpt2", "F32", "gpt2"}, GoldenModel{"llama3", "F32", "llama"},
        GoldenModel{"llama_bias", "F32", "llama"}, GoldenModel{"llama_q8_0", "Q8_0", "llama"},
        GoldenModel{"llama_q4_0", "Q4_0", "llama"}, GoldenModel{"mistral_bf16", "BF16", "llama"},
        GoldenModel{"qwen2", "F32", "qwen2"}, GoldenModel{"qwen3_f16", "F16", "qwen3"},
        GoldenModel{"gemma2", "F32", "gemma2"}, GoldenModel{"gemma3", "F32", "gemma3_text"},
        GoldenModel{"phi3", "F32", "phi3"}, GoldenModel{"olmo2", "F32", "olmo2"},
        GoldenModel{"gptneox", "F32", "gpt_neox"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(GgufModel, StoredTypeIsThatOfTheMatrices) {
  EXPECT_EQ(io::stored_type(golden_file("mistral_bf16")), DType::bf16);
  EXPECT_EQ(io::stored_type(golden_file("qwen3_f16")), DType::f16);
  EXPECT_EQ(io::stored_type(golden_file("llama_q4_0")), DType::f32);
}

TEST(GgufModel, KeysBecomeTheConfiguration) {
  const nn::LanguageModelConfig llama = io::read_config(golden_file("llama3"));
  EXPECT_EQ(llama.rope_scaling.kind, nn::RopeScalingKind::llama3);
  EXPECT_EQ(llama.rope_scaling.factor, 8);
  EXPECT_EQ(llama.rope_scaling.original_context, 8);
  EXPECT_EQ(llama.rope_theta, 500000);
  EXPECT_EQ(llama.eps, 1e-6);  // the decimal, not the f32 next to it
  EXPECT_EQ(llama.head_width(), 8);
  const nn::LanguageModelConfig gemma = io::read_config(golden_file("gemma2"));
  EXPECT_EQ(gemma.window_of(0), 5);
  EXPECT_EQ(gemma.window_of(1), 0);
  EXPECT_EQ(gemma.logit_softcap, 3);
  EXPECT_EQ(io::read_config(golden_file("phi3")).rotary_dim, 2);
}

// Positions past the model's are left out; other differences are named.
TEST(GgufModel, WeightsOfAShorterContext) {
  nn::LanguageModelConfig config = io::read_config(golden_file("gpt2"));
  config.context = 10;
  nn::LanguageModel model(config);
  io::load_weights(model, golden_file("gpt2"));
  const auto whole = load_pretrained(golden_file("gpt2"));
  const SafetensorsFile recorded(golden("gguf.safetensors"));
  Tensor tokens = Tensor::empty({1, 10}, DType::i64);
  for (int64_t i = 0; i < 10; ++i) static_cast<int64_t*>(tokens.raw_data())[i] = 2 * i;
  EXPECT_EQ(to_vector(model.logits(tokens)), to_vector(whole->logits(tokens)));
  config.layers = 3;
  const std::string message =
      test::error_of([&] { io::check_weights(config, golden_file("gpt2")); });
  EXPECT_THAT(message, HasSubstr("missing: blk.2.attn_qkv.weight [48, 16]"));
  config.layers = 1;
  EXPECT_THAT(test::error_of([&] { io::check_weights(config, golden_file("gpt2")); }),
              HasSubstr("not in this model: \"blk.1.attn_norm.weight\""));
}

nn::LanguageModelConfig config_of(const std::string& name) {
  return io::read_config(golden_file(name));
}

TEST(GgufModel, WhatKeysCannotSayIsRefusedByName) {
  nn::LanguageModelConfig config = config_of("mistral_bf16");
  config.family = "mistral";
  EXPECT_EQ(test::error_of([&] { check_exportable(config); }), "");
  config.window = config.context;
  EXPECT_EQ(test::error_of([&] { check_exportable(config); }), "");
  config.window = 5;
  EXPECT_THAT(test::error_of([&] { check_exportable(config); }),
              HasSubstr("sliding window: expected none"));
  nn::LanguageModelConfig gemma = config_of("gemma2");
  gemma.attention_scale = 0.25;
  EXPECT_THAT(test::error_of([&] { check_exportable(gemma); }),
              HasSubstr("query_pre_attn_scalar: expected 8, the size of a head"));
  gemma = config_of("gemma2");
  std::swap(gemma.layer_types[0], gemma.layer_types[1]);
  EXPECT_THAT(test::error_of([&] { check_exportable(gemma); }), HasSubstr("sliding layers"));
  nn::LanguageModelConfig qwen = config_of("qwen2");
  qwen.rope_scaling = {.kind = nn::RopeScalingKind::llama3, .factor = 8};
  EXPECT_THAT(test::error_of([&] { check_exportable(qwen); }), HasSubstr("llama3 rope scaling"));
}

TEST(GgufModel, RowsThatNoBlockDividesHaveTheNextType) {
  nn::LanguageModelConfig config = config_of("llama_q8_0");
  config.hidden = 80;  // the rows of ffn_down
  const nn::LanguageModel model(config);
  const TemporaryFolder folder;
  save(model, folder / "m.gguf", {.type = find_tensor_type("q4_k")});
  const File file(folder / "m.gguf");
  EXPECT_EQ(file.find("blk.0.attn_q.weight")->type->name, "Q8_0");  // 64 is no multiple of 256
  EXPECT_EQ(file.find("blk.0.ffn_down.weight")->type->name, "F16");
  EXPECT_EQ(file.find("blk.0.attn_norm.weight")->type->name, "F32");
}

// A model whose head is tied, in an architecture that always has one.
// The file of a model that was trained with rounded weights holds what the forward read.
TEST(GgufModel, OnlyWeightsThatWereTrainedRoundedAreRounded) {
  const nn::LanguageModel model(config_of("llama_q8_0"));
  const TemporaryFolder folder;
  WeightFormatOptions trained{.format = "mxfp4", .head = true, .exclude = {"k_proj"}};
  const auto types = [&](const char* name) {
    save(model, folder / name, {.type = find_tensor_type("mxfp4"), .trained = trained});
    const File file(folder / name);
    std::map<std::string, std::string> found;
    for (const char* tensor : {"token_embd", "output", "blk.0.attn_q", "blk.0.attn_k",
                               "blk.0.ffn_down", "blk.0.ffn_norm"})
      found[tensor] = file.find(std::string(tensor) + ".weight")->type->name;
    return found;
  };
  EXPECT_EQ(types("head.gguf"), (std::map<std::string, std::string>{{"token_embd", "F16"},
                                                                    {"output", "MXFP4"},
                                                                    {"blk.0.attn_q", "MXFP4"},
                                                                    {"blk.0.attn_k", "F16"},
                                                                    {"blk.0.ffn_down", "MXFP4"},
                                                                    {"blk.0.ffn_norm", "F32"}}));
  trained.head = false;
  EXPECT_EQ(types("plain.gguf").at("output"), "F16");
}

TEST(GgufModel, ATiedHeadIsWrittenTwiceWhereLlamaCppNeedsIt) {
  nn::LanguageModelConfig config = config_of("olmo2");
  config.tied_head = true;
  const nn::LanguageModel model(config);
  const TemporaryFolder folder;
  save(model, folder / "m.gguf", {});
  const File file(folder / "m.gguf");
  ASSERT_NE(file.find("output.weight"), nullptr);
  EXPECT_EQ(to_vector(file.load(*file.find("output.weight"))),
            to_vector(file.load(*file.find("token_embd.weight"))));
}

// By hand: theta 10000 and 4 channels give the wavelengths 2 pi and 628.
TEST(GgufModel, RopeDivisors) {
  const nn::RopeScaling scaling{.kind = nn::RopeScalingKind::llama3,
                                .factor = 32,
                                .low = 1,
                                .high = 4,
                                .original_context = 12};
  const std::vector<float> divisors = llama3_divisors(4, 10000, scaling);
  const double part = (12 / 6.283185307179586 - 1) / 3;
  EXPECT_FLOAT_EQ(divisors.at(0), static_cast<float>(1 / ((1 - part) / 32 + part)));
  EXPECT_FLOAT_EQ(divisors.at(1), 32);
  Tensor given = Tensor::empty({2}, DType::f32);
  auto* values = static_cast<float*>(given.raw_data());
  std::copy(divisors.begin(), divisors.end(), values);
  ASSERT_TRUE(llama3_scaling(given, 4, 10000, 12).has_value());
  EXPECT_EQ(llama3_scaling(given, 4, 10000, 12)->factor, 32);
  EXPECT_FALSE(llama3_scaling(given, 4, 10000, 24).has_value());
  values[1] = -32;
  EXPECT_FALSE(llama3_scaling(given, 4, 10000, 12).has_value());
}

}  // namespace
}  // namespace binade::io::gguf
