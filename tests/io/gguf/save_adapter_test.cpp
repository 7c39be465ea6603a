#include "binade/io/gguf/save_adapter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "binade/autograd/grad_mode.h"
#include "binade/io/gguf/file.h"
#include "binade/io/gguf/save.h"
#include "binade/io/huggingface.h"
#include "binade/io/lora.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/matmul/matmul.h"
#include "io/temporary_folder.h"
#include "support/error_of.h"

namespace binade::io::gguf {
namespace {

using ::testing::HasSubstr;

constexpr const char* llama =
    R"({"model_type": "llama", "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2,
        "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 8, "vocab_size": 30,
        "max_position_embeddings": 16, "rms_norm_eps": 1e-5})";
constexpr const char* gpt2 =
    R"({"model_type": "gpt2", "n_embd": 24, "n_layer": 2, "n_head": 3, "vocab_size": 30,
        "n_positions": 16, "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new"})";
constexpr const char* gpt_neox =
    R"({"model_type": "gpt_neox", "hidden_size": 24, "intermediate_size": 40,
        "num_hidden_layers": 2, "num_attention_heads": 3, "vocab_size": 30, "rotary_pct": 0.25,
        "max_position_embeddings": 16, "hidden_act": "gelu"})";

// A base and an adapter of it with random factors, as folders.
class GgufAdapter : public ::testing::TestWithParam<const char*> {
 protected:
  GgufAdapter() : model_(parse_config(GetParam(), "test")) {
    save_pretrained(model_, folder_ / "base");
    add_adapters(model_, {.rank = 3, .alpha = 5, .dropout = 0, .targets = {"all-linear"}});
    const NoGrad no_grad;
    uint64_t stream = 0;
    for (auto& [name, parameter] : model_.named_parameters()) {
      if (name.find(".lora.") != std::string::npos)
        copy_(parameter.detach(), randn(parameter.shape(), {.seed = 8, .stream = ++stream}));
    }
    write_adapter({.rank = 3, .alpha = 5, .dropout = 0, .targets = {"all-linear"}});
  }

  void write_adapter(const LoraOptions& lora, const std::string& added = "") {
    std::filesystem::create_directories(folder_ / "adapter");
    std::string text =
        adapter_config_json(model_, {.lora = lora, .base = (folder_ / "base").string()});
    text.insert(text.find('{') + 1, added);
    folder_.put("adapter/adapter_config.json", text);
    save_safetensors(folder_ / "adapter/adapter_model.safetensors", adapter_tensors(model_));
  }

  // The base's tensors with the updates of the adapter's file are those of the merged model.
  void expect_merged(double alpha) {
    const TensorType& f32 = *find_tensor_type("f32");
    save(*load_pretrained(folder_ / "base"), folder_ / "base.gguf",
         {.type = &f32, .add_tokenizer = {}});
    save(*load_pretrained(folder_ / "adapter"), folder_ / "merged.gguf",
         {.type = &f32, .add_tokenizer = {}});
    save_adapter(folder_ / "adapter", folder_ / "adapter.gguf", f32);
    const File base(folder_ / "base.gguf"), merged(folder_ / "merged.gguf"),
        adapter(folder_ / "adapter.gguf");
    EXPECT_EQ(adapter.key("general.type").text(), "adapter");
    EXPECT_EQ(adapter.key("adapter.type").text(), "lora");
    EXPECT_EQ(adapter.key("general.architecture").text(), base.key("general.architecture").text());
    EXPECT_FLOAT_EQ(static_cast<float>(adapter.key("adapter.lora.alpha").number()),
                    static_cast<float>(alpha));
    size_t adapted = 0;
    for (const TensorInfo& tensor : base.tensors()) {
      const TensorInfo *a = adapter.find(tensor.name + ".lora_a"),
                       *b = adapter.find(tensor.name + ".lora_b");
      Tensor expected = base.load(tensor);
      ASSERT_EQ(a == nullptr, b == nullptr);
      if (a != nullptr) {
        ++adapted;
        const double scale =
            adapter.key("adapter.lora.alpha").number() / static_cast<double>(b->shape[1]);
        expected = expected + matmul(adapter.load(*b), adapter.load(*a)) * scale;
      }
      const std::vector<double> x = to_vector(merged.load(*merged.find(tensor.name))),
                                y = to_vector(expected);
      for (size_t i = 0; i < x.size(); ++i)
        ASSERT_NEAR(x[i], y[i], 1e-6 * (1 + std::abs(x[i]))) << tensor.name << " " << i;
    }
    EXPECT_EQ(adapter.tensors().size(), 2 * adapted);
    EXPECT_EQ(adapter_tensors(model_).size(), 2 * adapted);
  }

  testing::TemporaryFolder folder_;
  nn::LanguageModel model_;
};

TEST_P(GgufAdapter, AddsUpToTheMergedModel) { expect_merged(5); }

TEST_P(GgufAdapter, HasOtherScalesInItsFactors) {
  write_adapter({.rank = 3, .alpha = 7, .dropout = 0, .targets = {"all-linear"}},
                R"("use_rslora": true, )");
  expect_merged(7);
}

TEST_P(GgufAdapter, IsWrittenIn16Bits) {
  const SavedAdapter saved =
      save_adapter(folder_ / "adapter", folder_ / "small.gguf", *find_tensor_type("bf16"));
  int64_t parameters = 0;
  for (const auto& [name, tensor] : adapter_tensors(model_)) parameters += tensor.numel();
  EXPECT_EQ(saved.parameters, parameters);
  const File file(folder_ / "small.gguf");
  for (const TensorInfo& tensor : file.tensors()) EXPECT_EQ(tensor.type->name, "BF16");
}

// A model's reader names what is wrong with such a file.
TEST_P(GgufAdapter, IsNoModel) {
  save_adapter(folder_ / "adapter", folder_ / "adapter.gguf", *find_tensor_type("f32"));
  EXPECT_THAT(test::error_of([&] { load_pretrained(folder_ / "adapter.gguf"); }),
              HasSubstr("general.type"));
}

INSTANTIATE_TEST_SUITE_P(Families, GgufAdapter, ::testing::Values(llama, gpt2, gpt_neox));

}  // namespace
}  // namespace binade::io::gguf
