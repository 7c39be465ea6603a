// Models of every family against what transformers recorded (tests/golden/families.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "binade/io/huggingface.h"
#include "binade/io/huggingface_config.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/shape/shape.h"
#include "io/temporary_folder.h"
#include "support/error_of.h"

namespace binade::io {
namespace {

using ::binade::testing::golden;
using ::binade::testing::TemporaryFolder;
using ::testing::HasSubstr;

// Logits of magnitude 10 at most, summed over a few dozen products: f32 leaves about 1e-6.
constexpr double tolerance = 1e-5;

double largest_gap(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = to_vector(a), y = to_vector(b);
  if (x.size() != y.size()) return INFINITY;
  double result = 0;
  for (size_t i = 0; i < x.size(); ++i) result = std::max(result, std::fabs(x[i] - y[i]));
  return result;
}

class Families : public ::testing::TestWithParam<const char*> {
 protected:
  Families()
      : file_(golden("families.safetensors")),
        config_(parse_config(file_.metadata().at("config/" + name()), "config.json")),
        tokens_(file_.load("run/" + name() + "/tokens")) {
    for (const TensorEntry& entry : file_.entries()) {
      if (entry.name.starts_with(name() + "/"))
        weights_[entry.name.substr(name().size() + 1)] = file_.load(entry);
    }
  }

  static std::string name() { return GetParam(); }
  Tensor recorded(const char* what) const { return file_.load("run/" + name() + "/" + what); }
  Tensor inputs() const { return contiguous(slice(tokens_, 1, 0, tokens_.size(1) - 1)); }
  Tensor targets() const { return contiguous(slice(tokens_, 1, 1, tokens_.size(1))); }

  SafetensorsFile file_;
  nn::LanguageModelConfig config_;
  Tensor tokens_;
  StateDict weights_;
};

TEST_P(Families, LogitsLossAndGradientsAreThoseOfTransformers) {
  nn::LanguageModel model(config_);
  load_huggingface(model, weights_);
  EXPECT_LT(largest_gap(model.logits(inputs()), recorded("logits")), tolerance);
  const Tensor loss = model.loss(inputs(), targets());
  EXPECT_NEAR(loss.item(), recorded("loss").item(), 1e-6);
  loss.backward();
  double squares = 0;
  for (const Tensor& parameter : model.parameters()) {
    for (const double value : to_vector(parameter.grad())) squares += value * value;
  }
  const double norm = recorded("grad_norm").item();
  EXPECT_NEAR(std::sqrt(squares), norm, 1e-5 * norm);
}

TEST_P(Families, ACacheGivesTheSameLogits) {
  nn::LanguageModel model(config_);
  load_huggingface(model, weights_);
  nn::KeyValueCache cache(16);
  const Tensor all = recorded("logits");
  for (int64_t begin = 0, step = 5; begin < 12; begin += step, step = 1) {
    const Tensor part = contiguous(slice(inputs(), 1, begin, begin + step));
    EXPECT_LT(largest_gap(model.logits(part, cache), slice(all, 1, begin, begin + step)), tolerance)
        << "from token " << begin;
  }
}

TEST_P(Families, SavedFoldersHoldTheSameModel) {
  nn::LanguageModel model(config_);
  load_huggingface(model, weights_);
  const TemporaryFolder folder;
  save_pretrained(model, folder.path());
  const auto again = load_pretrained(folder.path());
  EXPECT_EQ(family_of(again->config()).type, config_.family);
  EXPECT_EQ(again->config().eos, config_.eos);
  EXPECT_EQ(to_vector(again->logits(inputs())), to_vector(model.logits(inputs())));
  const StateDict saved = load_safetensors(folder / "model.safetensors");
  ASSERT_EQ(saved.size(), weights_.size());
  for (const auto& [key, tensor] : weights_) {
    ASSERT_TRUE(saved.contains(key)) << key;
    EXPECT_EQ(saved.at(key).shape(), tensor.shape()) << key;
    EXPECT_EQ(to_vector(saved.at(key)), to_vector(tensor)) << key;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Families,
                         ::testing::Values("llama3", "llama_bias", "llama_linear", "mistral",
                                           "qwen2", "qwen2_window", "qwen3", "gemma2", "gemma3",
                                           "phi3", "olmo2", "gpt_neox", "gpt_neox_sequential"),
                         [](const auto& info) { return std::string(info.param); });

TEST(FamilyFacts, DefaultsOfMissingKeysAreThoseOfTransformers) {
  const std::string sizes =
      R"(,"num_hidden_layers":12,"hidden_size":64,"num_attention_heads":4,"intermediate_size":96,)"
      R"("max_position_embeddings":128,"vocab_size":100})";
  const auto read = [&](const std::string& type) {
    return parse_config("{\"model_type\":\"" + type + "\"" + sizes, "config.json");
  };
  EXPECT_EQ(read("mistral").window, 4096);
  EXPECT_EQ(read("phi3").window, 0);
  EXPECT_EQ(read("qwen2").window, 0);
  EXPECT_EQ(read("qwen3").head_dim, 128);
  EXPECT_EQ(read("gpt_neox").rotary_dim, 4);
  EXPECT_EQ(read("gpt_neox").eps, 1e-5);
  const nn::LanguageModelConfig gemma2 = read("gemma2"), gemma3 = read("gemma3_text");
  EXPECT_EQ(gemma2.attention_softcap, 50);
  EXPECT_EQ(gemma2.logit_softcap, 30);
  EXPECT_EQ(gemma2.attention_scale, 1.0 / 16);
  EXPECT_EQ(gemma2.embedding_scale, 8);
  EXPECT_TRUE(gemma2.tied_head);
  EXPECT_EQ(gemma2.window_of(0), 4096);
  EXPECT_EQ(gemma2.window_of(1), 0);
  EXPECT_EQ(gemma3.rope_theta, 1e6);
  EXPECT_EQ(gemma3.local_rope_theta, 10000);
  EXPECT_EQ(gemma3.window_of(4), 4096);
  EXPECT_EQ(gemma3.window_of(5), 0);
  EXPECT_EQ(gemma3.attention_softcap, 0);
}

// Files without layer_types: the first sliding layer of Qwen2, and the last one of Gemma's
// patterns.
TEST(FamilyFacts, SlidingLayersFollowTheFamilysRule) {
  const auto windows = [](const std::string& type, int64_t layers, const std::string& more) {
    const nn::LanguageModelConfig config = parse_config(
        "{\"model_type\":\"" + type + "\",\"num_hidden_layers\":" + std::to_string(layers) +
            R"(,"hidden_size":64,"num_attention_heads":4,"intermediate_size":96,"vocab_size":100,)"
            R"("max_position_embeddings":128,"sliding_window":16)" +
            more + "}",
        "config.json");
    std::string text;
    for (int64_t i = 0; i < layers; ++i) text += config.window_of(i) == 16 ? 's' : 'f';
    return text;
  };
  for (const char* type : {"qwen2", "qwen3"}) {
    const std::string on = R"(,"use_sliding_window":true)";
    EXPECT_EQ(windows(type, 4, on + R"(,"max_window_layers":2)"), "ffss");
    EXPECT_EQ(windows(type, 4, on + R"(,"max_window_layers":0)"), "ssss");
    EXPECT_EQ(windows(type, 4, on + R"(,"max_window_layers":4)"), "ffff");
    EXPECT_EQ(windows(type, 30, on), std::string(28, 'f') + "ss");
    EXPECT_EQ(windows(type, 4, R"(,"max_window_layers":2)"), "ffff");
    EXPECT_EQ(windows(type, 2, on + R"(,"layer_types":["sliding_attention","full_attention"])"),
              "sf");
  }
  EXPECT_EQ(windows("gemma2", 5, ""), "sfsfs");
  EXPECT_EQ(windows("gemma3_text", 7, ""), "sssssfs");
  EXPECT_EQ(windows("gemma3_text", 7, R"(,"sliding_window_pattern":3)"), "ssfssfs");
}

TEST(FamilyFacts, PicklesAreRefusedWithTheConversion) {
  const TemporaryFolder folder;
  write_config(folder / "config.json",
               nn::GPT({.layers = 1, .width = 8, .heads = 2, .vocab = 20, .context = 8}).config());
  folder.put("pytorch_model.bin", "x");
  EXPECT_THAT(test::error_of([&] { load_pretrained(folder.path()); }),
              ::testing::AllOf(HasSubstr("pytorch_model.bin"), HasSubstr("save_pretrained")));
}

}  // namespace
}  // namespace binade::io
