#include "binade/io/lora.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "binade/autograd/grad_mode.h"
#include "binade/io/huggingface.h"
#include "binade/io/safetensors.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/shape/shape.h"
#include "io/temporary_folder.h"
#include "support/error_of.h"

namespace binade::io {
namespace {

using ::testing::HasSubstr;

// The models of lora_run.safetensors, which PEFT's tensors are for (tests/golden/lora.py).
class LoraFiles : public ::testing::TestWithParam<const char*> {
 protected:
  LoraFiles()
      : file_(testing::golden("lora_run.safetensors")),
        config_(parse_config(file_.metadata().at("config/" + name()), "config.json")) {
    for (const TensorEntry& entry : file_.entries()) {
      const std::string start = name() + "/start/";
      if (entry.name.starts_with(start)) {
        adapter_[entry.name.substr(start.size())] = file_.load(entry);
      } else if (entry.name.starts_with(name() + "/")) {
        weights_[entry.name.substr(name().size() + 1)] = file_.load(entry);
      }
    }
  }

  static std::string name() { return GetParam(); }

  // The settings that lora.py has for the model.
  LoraOptions options() const {
    if (name() == "llama")
      return {.rank = 4, .alpha = 8, .targets = {"q_proj", "v_proj", "up_proj"}};
    if (name() == "gpt2") return {.rank = 3, .alpha = 6, .targets = {"c_attn", "c_fc"}};
    return {.rank = 2, .alpha = 4, .targets = {"query_key_value", "dense_4h_to_h"}};
  }

  std::unique_ptr<nn::LanguageModel> model() const {
    auto model = std::make_unique<nn::LanguageModel>(config_);
    load_huggingface(*model, weights_);
    return model;
  }

  SafetensorsFile file_;
  nn::LanguageModelConfig config_;
  StateDict weights_, adapter_;
};

TEST_P(LoraFiles, MergedAdaptersComputeWhatAdaptersDo) {
  const testing::TemporaryFolder folder;
  const auto adapted = model();
  save_pretrained(*adapted, folder / "base");
  add_adapters(*adapted, options());
  load_adapter_tensors(*adapted, adapter_);
  std::filesystem::create_directories(folder / "adapter");
  save_safetensors(folder / "adapter/adapter_model.safetensors", adapter_tensors(*adapted));
  folder.put("adapter/adapter_config.json",
             adapter_config_json(*adapted, {options(), (folder / "base").string()}));

  EXPECT_TRUE(is_adapter(folder / "adapter"));
  EXPECT_EQ(stored_type(folder / "adapter"), DType::f32);
  const auto merged = load_pretrained(folder / "adapter");
  const Tensor tokens = slice(file_.load("run/" + name() + "/tokens"), 0, 0, 1);
  const Tensor inputs = contiguous(slice(select(tokens, 0, 0), 1, 0, tokens.size(2) - 1));
  const NoGrad no_grad;
  const std::vector<double> x = to_vector(adapted->logits(inputs)),
                            y = to_vector(merged->logits(inputs)),
                            base = to_vector(model()->logits(inputs));
  double gap = 0, change = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    gap = std::max(gap, std::fabs(x[i] - y[i]));
    change = std::max(change, std::fabs(x[i] - base[i]));
  }
  EXPECT_GT(change, 0.1);
  EXPECT_LT(gap, 1e-5);  // logits of magnitude 10, in f32
}

TEST_P(LoraFiles, TensorsHavePeftsNamesAndComeBackBitForBit) {
  const auto adapted = model();
  add_adapters(*adapted, options());
  load_adapter_tensors(*adapted, adapter_);
  const StateDict saved = adapter_tensors(*adapted);
  ASSERT_EQ(saved.size(), adapter_.size());
  for (const auto& [key, tensor] : adapter_) {
    ASSERT_TRUE(saved.contains(key)) << key;
    EXPECT_EQ(to_vector(saved.at(key)), to_vector(tensor)) << key;
  }
}

TEST_P(LoraFiles, OnlyAdaptersAreTrained) {
  const auto adapted = model();
  add_adapters(*adapted, options());
  for (const auto& [key, parameter] : adapted->named_parameters())
    EXPECT_EQ(parameter.requires_grad(), key.find(".lora.") != std::string::npos) << key;
}

INSTANTIATE_TEST_SUITE_P(Peft, LoraFiles, ::testing::Values("llama", "gpt2", "gpt_neox"));

nn::LanguageModelConfig adapted_llama() {
  return {.layers = 2,
          .width = 8,
          .heads = 2,
          .hidden = 16,
          .vocab = 20,
          .context = 4,
          .norm = nn::NormKind::rms,
          .bias = false,
          .gated = true,
          .learned_positions = false,
          .tied_head = false};
}

int64_t adapters_with(const std::vector<std::string>& targets) {
  nn::LanguageModel model(adapted_llama());
  add_adapters(model, {.rank = 1, .targets = targets});
  return static_cast<int64_t>(adapter_tensors(model).size()) / 2;
}

TEST(LoraTargets, AreSuffixesNamesPatternsOrAllLinear) {
  EXPECT_EQ(adapters_with({"all-linear"}), 14);
  EXPECT_EQ(adapters_with({"q_proj"}), 2);
  EXPECT_EQ(adapters_with({"q_proj", "self_attn.q_proj"}), 2);
  EXPECT_EQ(adapters_with({"model.layers.1.mlp.down_proj"}), 1);
  EXPECT_EQ(adapters_with({"*.0.*"}), 7);
}

TEST(LoraTargets, ThatNameNothingAreRefused) {
  const std::string message = test::error_of([] { adapters_with({"q_proj", "lm_head"}); });
  EXPECT_THAT(message, HasSubstr("\"lm_head\""));
  EXPECT_THAT(message, HasSubstr("all-linear, down_proj, gate_proj"));
}

// PEFT takes a short name for every layer that ends in it.
TEST(LoraTargets, AreWrittenSoThatPeftAdaptsTheSameLayers) {
  nn::LanguageModel some(adapted_llama());
  add_adapters(some, {.rank = 1, .targets = {"model.layers.1.self_attn.v_proj"}});
  EXPECT_THAT(adapter_config_json(some, {}), HasSubstr("\"model.layers.1.self_attn.v_proj\""));
  nn::LanguageModel all(adapted_llama());
  add_adapters(all, {.rank = 1, .targets = {"v_proj"}});
  EXPECT_THAT(adapter_config_json(all, {}), HasSubstr("\"v_proj\""));
}

class AdapterFolder : public ::testing::Test {
 protected:
  AdapterFolder() {
    nn::LanguageModel model(adapted_llama());
    save_pretrained(model, folder_.path() / "base");
    add_adapters(model, {.rank = 2, .alpha = 4, .targets = {"q_proj"}});
    tensors_ = adapter_tensors(model);
    for (auto& [name, tensor] : tensors_) fill_(tensor, 0.5);
    write(R"("r": 2, "lora_alpha": 4)");
  }
  void write(const std::string& settings) {
    std::filesystem::create_directories(folder_ / "adapter");
    save_safetensors(folder_ / "adapter/adapter_model.safetensors", tensors_);
    folder_.put("adapter/adapter_config.json",
                R"({"peft_type": "LORA", "target_modules": ["q_proj"], )" + settings +
                    R"(, "base_model_name_or_path": ")" + (folder_ / "base").string() + "\"}");
  }
  // What the adapter adds to one element of a weight.
  double update() {
    const auto before = load_pretrained(folder_ / "base"),
               after = load_pretrained(folder_ / "adapter");
    const std::string name = "model.layers.0.self_attn.q_proj.weight";
    return to_vector(to_huggingface(*after).at(name))[0] -
           to_vector(to_huggingface(*before).at(name))[0];
  }

  testing::TemporaryFolder folder_;
  StateDict tensors_;
};

// b a = 2 * 0.5 * 0.5.
TEST_F(AdapterFolder, ScalesByAlphaAndRank) {
  EXPECT_NEAR(update(), 2 * 0.5, 1e-6);
  write(R"("r": 2, "lora_alpha": 4, "use_rslora": true)");
  EXPECT_NEAR(update(), 4 / std::sqrt(2) * 0.5, 1e-6);
  write(R"("r": 2, "lora_alpha": 4, "alpha_pattern": {"q_proj": 6})");
  EXPECT_NEAR(update(), 3 * 0.5, 1e-6);
}

TEST_F(AdapterFolder, OtherVariantsAreRefused) {
  for (const char* settings :
       {R"("r": 2, "lora_alpha": 4, "use_dora": true)", R"("r": 2, "lora_alpha": 4, "bias": "all")",
        R"("r": 2, "lora_alpha": 4, "modules_to_save": ["lm_head"])",
        R"("r": 0, "lora_alpha": 4)"}) {
    write(settings);
    EXPECT_THAT(test::error_of([&] { read_adapter_config(folder_ / "adapter"); }),
                HasSubstr("adapter_config.json"))
        << settings;
  }
}

TEST_F(AdapterFolder, TensorsOfNoLayerAreNamed) {
  tensors_["base_model.model.lm_head.weight"] = zeros({2, 2});
  write(R"("r": 2, "lora_alpha": 4)");
  EXPECT_THAT(test::error_of([&] { update(); }),
              HasSubstr("not in this model: \"base_model.model.lm_head.weight\""));
}

TEST_F(AdapterFolder, ABaseThatIsNotThereIsNamed) {
  std::filesystem::remove_all(folder_ / "base");
  EXPECT_THAT(test::error_of([&] { load_pretrained(folder_ / "adapter"); }),
              HasSubstr("which is not there"));
}

}  // namespace
}  // namespace binade::io
