#include "binade/io/compressed_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "binade/autograd/grad_mode.h"
#include "binade/base/json.h"
#include "binade/io/convert_model.h"
#include "binade/io/weight_formats.h"
#include "binade/nn/linear.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/quantized/round_weight.h"
#include "binade/ops/shape/shape.h"
#include "io/temporary_folder.h"
#include "support/error_of.h"
#include "support/values.h"

namespace binade::io {
namespace {

using testing::content_of;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::TemporaryFolder;

// Rows of whole groups of 128, and blocks of 128 rows that are many and one that is not full: q has
// 256 rows, k and v 64.
nn::LanguageModelConfig compressed_config() {
  return {.layers = 2,
          .width = 128,
          .heads = 8,
          .kv_heads = 2,
          .head_dim = 32,
          .hidden = 256,
          .vocab = 40,
          .context = 16,
          .norm = nn::NormKind::rms,
          .bias = false,
          .gated = true,
          .learned_positions = false,
          .tied_head = false};
}

// The values of a layer's tensors by the definition of its layout, in double.
std::vector<double> values_in_file(const StateDict& tensors, const std::string& module,
                                   const std::string& format) {
  const auto numbers = [&](const char* name) { return to_vector(tensors.at(module + name)); };
  const std::vector<double> scale = numbers(".weight_scale");
  std::vector<double> values;
  if (format == "fp8-block") {
    const std::vector<double> codes = numbers(".weight");
    const int64_t columns = tensors.at(module + ".weight").size(1), blocks = columns / 128;
    for (size_t i = 0; i < codes.size(); ++i) {
      const auto row = static_cast<int64_t>(i) / columns,
                 column = static_cast<int64_t>(i) % columns;
      values.push_back(codes[i] * scale[static_cast<size_t>(row / 128 * blocks + column / 128)]);
    }
    return values;
  }
  const Tensor packed = tensors.at(module + ".weight_packed");
  if (format == "nvfp4") {
    constexpr double magnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    const double global = numbers(".weight_global_scale").at(0);
    for (int64_t i = 0; i < packed.numel() * 2; ++i) {
      const uint8_t byte = packed.data<uint8_t>()[i / 2];
      const unsigned code = i % 2 == 0 ? byte & 15U : byte >> 4U;  // the even column is low
      const double magnitude = magnitudes[code & 7U] * ((code & 8U) != 0 ? -1 : 1);
      values.push_back(magnitude * (scale[static_cast<size_t>(i / 16)] / global));
    }
    return values;
  }
  for (int64_t i = 0; i < packed.numel() * 8; ++i) {
    const auto word = static_cast<uint32_t>(packed.data<int32_t>()[i / 8]);
    const double code = static_cast<double>(word >> (i % 8 * 4) & 15U) - 8;
    values.push_back(code * scale[static_cast<size_t>(i / 128)]);
  }
  return values;
}

// What the forward of quantization-aware training multiplies by.
std::vector<double> values_of_forward(const nn::LanguageModel& model, const std::string& module,
                                      const formats::WeightFormat& format) {
  const StateDict weights = to_huggingface(model);
  return to_vector(round_weight(weights.at(module + ".weight"), format));
}

TEST(CompressedTensors, HoldTheValuesOfTheForwardInAllElements) {
  nn::LanguageModel model(compressed_config());
  const StateDict plain = to_huggingface(model);
  for (const std::string format : {"int4-g128", "nvfp4", "fp8-block"}) {
    const WeightFormatOptions options{.format = format, .head = true};
    const StateDict tensors = compressed_weights(model, options);
    size_t layers = 0;
    for (const auto& [name, tensor] : plain) {
      const bool is_linear = tensor.rank() == 2 && name != "model.embed_tokens.weight";
      if (!is_linear) {
        EXPECT_EQ(to_vector(tensors.at(name)), to_vector(tensor)) << name;
        continue;
      }
      const std::string module = name.substr(0, name.size() - std::string(".weight").size());
      SCOPED_TRACE(format + " " + module);
      const auto found = values_in_file(tensors, module, format),
                 expected = values_of_forward(model, module, *formats::find_weight_format(format));
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < found.size(); ++i)
        ASSERT_NEAR(found[i], expected[i], std::abs(expected[i]) * 0x1p-23) << i;
      ++layers;
    }
    EXPECT_EQ(layers, 15U);  // seven a block, and the head
  }
}

// The forward rounds q, k and v, which are one weight, as the file's tensors.
TEST(CompressedTensors, AreRoundedAsTheModelRounds) {
  nn::LanguageModel model(compressed_config());
  for (const std::string format : {"nvfp4", "fp8-block"}) {
    const formats::WeightFormat& known = *formats::find_weight_format(format);
    set_weight_format(model, {.format = format});
    nn::LanguageModel rounded(compressed_config());
    {
      const NoGrad no_grad;
      StateDict weights = to_huggingface(model);
      for (auto& [name, tensor] : weights) {
        const bool is_linear = tensor.rank() == 2 && name.find("_proj") != std::string::npos;
        if (is_linear) tensor = round_weight(tensor, known);
      }
      load_huggingface(rounded, weights);
    }
    const NoGrad no_grad;
    const Tensor tokens = cast(tensor({3, 1, 4, 1, 5, 9, 2, 6}, {1, 8}), DType::i64);
    EXPECT_EQ(to_vector(model.logits(tokens)), to_vector(rounded.logits(tokens))) << format;
  }
}

TEST(CompressedTensors, StoreTheTypesAndShapesOfTheirLayout) {
  nn::LanguageModel model(compressed_config());
  const std::string module = "model.layers.1.self_attn.q_proj";
  const auto described = [&](const char* format) {
    std::string text;
    for (const auto& [name, tensor] : compressed_weights(model, {.format = format})) {
      if (name.starts_with(module + "."))
        text += name.substr(module.size()) + " " + describe(tensor) + "\n";
    }
    return text;
  };
  EXPECT_THAT(described("nvfp4"), HasSubstr(".weight_global_scale [1] f32"));
  EXPECT_THAT(described("nvfp4"), HasSubstr(".weight_packed [256, 64] u8"));
  EXPECT_THAT(described("nvfp4"), HasSubstr(".weight_scale [256, 8] e4m3"));
  EXPECT_THAT(described("int4-g128"), HasSubstr(".weight_packed [256, 16] i32"));
  EXPECT_THAT(described("int4-g128"), HasSubstr(".weight_scale [256, 1] f32"));
  EXPECT_THAT(described("int4-g128"), HasSubstr(".weight_shape [2] i64"));
  EXPECT_THAT(described("fp8-block"), HasSubstr(".weight [256, 128] e4m3"));
  EXPECT_THAT(described("fp8-block"), HasSubstr(".weight_scale [2, 1] f32"));
}

TEST(CompressedTensors, AFolderIsWrittenFromF32WhateverTheTypeOfTheRest) {
  const TemporaryFolder folder;
  nn::LanguageModel model(compressed_config());
  save_pretrained(model, folder / "a");
  const WeightFormatOptions weights{.format = "nvfp4", .exclude = {"v_proj"}};
  const Converted done =
      convert_pretrained(folder / "a", folder / "b", {.dtype = DType::f16, .weights = weights});
  EXPECT_EQ(done.dtype, DType::f16);
  const StateDict written = load_safetensors(folder / "b/model.safetensors"),
                  expected = compressed_weights(model, weights);
  ASSERT_EQ(written.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    const Tensor& found = written.at(name);
    const bool is_weight = name.ends_with(".weight");
    EXPECT_EQ(found.dtype(), is_weight ? DType::f16 : tensor.dtype()) << name;
    EXPECT_EQ(to_vector(found), to_vector(is_weight ? cast(tensor, DType::f16) : tensor)) << name;
  }
  const std::string config = content_of(folder / "b/config.json");
  const json::Document document = json::parse(config, {"test", "config.json"});
  const json::Value& quantization = document.root().at("quantization_config");
  EXPECT_EQ(quantization.at("quant_method").string(), "compressed-tensors");
  EXPECT_EQ(quantization.at("format").string(), "nvfp4-pack-quantized");
  std::vector<std::string> ignored;
  for (const json::Value& one : quantization.at("ignore").array()) ignored.push_back(one.string());
  EXPECT_EQ(ignored, (std::vector<std::string>{"lm_head", "model.layers.0.self_attn.v_proj",
                                               "model.layers.1.self_attn.v_proj"}));
  const json::Value& group = quantization.at("config_groups").at("group_0");
  EXPECT_EQ(group.at("weights").at("group_size").integer(1, 1000), 16);
  EXPECT_EQ(group.at("weights").at("strategy").string(), "tensor_group");
  EXPECT_EQ(group.at("weights").at("scale_dtype").string(), "torch.float8_e4m3fn");
  EXPECT_TRUE(group.at("input_activations").is_null());
}

TEST(CompressedTensors, RefuseOtherFormatsAndOtherLayers) {
  nn::LanguageModel model(compressed_config());
  const std::string other = test::error_of([&] { compressed_weights(model, {.format = "q4_0"}); });
  EXPECT_THAT(other, HasSubstr("int4-g128, nvfp4, fp8-block"));
  EXPECT_THAT(other, HasSubstr("llama.cpp (GGUF)"));
  nn::GPT gpt({.layers = 1, .width = 128, .heads = 2, .vocab = 30, .context = 8});
  EXPECT_THAT(test::error_of([&] { compressed_weights(gpt, {.format = "nvfp4"}); }),
              HasSubstr("a Conv1D of gpt2"));
  nn::Llama tied({.layers = 1,
                  .width = 128,
                  .heads = 2,
                  .hidden = 128,
                  .vocab = 30,
                  .context = 8,
                  .tied_head = true});
  EXPECT_THAT(test::error_of([&] { compressed_weights(tied, {.format = "nvfp4", .head = true}); }),
              HasSubstr("shares the token embedding"));
}

TEST(CompressedTensors, RefuseWeightsThatAreNotFinite) {
  const TemporaryFolder folder;
  nn::LanguageModel model(compressed_config());
  for (auto& [name, parameter] : model.named_parameters()) {
    if (name != "blocks.1.mlp.down.weight") continue;
    const NoGrad no_grad;
    fill_(slice(parameter.detach(), 0, 3, 4), INFINITY);
  }
  save_pretrained(model, folder / "a");
  EXPECT_THAT(test::error_of([&] {
                convert_pretrained(folder / "a", folder / "b", {.weights = {.format = "nvfp4"}});
              }),
              HasSubstr("blocks.1.mlp.down.weight"));
  EXPECT_FALSE(std::filesystem::exists(folder / "b"));
}

}  // namespace
}  // namespace binade::io
