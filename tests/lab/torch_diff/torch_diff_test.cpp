// Recordings of transformers' models (tests/golden/torch_diff.py), as they are and with a fault.
#include "binade/lab/torch_diff/torch_diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "binade/amp/recipe/text.h"
#include "binade/autograd/grad_mode.h"
#include "binade/base/json.h"
#include "binade/io/huggingface.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/unary.h"
#include "io/temporary_folder.h"
#include "support/error_of.h"

namespace binade::lab {
namespace {

using test::error_of;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

io::Path recorded(const std::string& name) {
  return testing::golden("torch_diff") / (name + ".safetensors");
}

std::unique_ptr<nn::LanguageModel> golden_model(const std::string& name) {
  return io::load_pretrained(testing::golden("torch_diff") / name.substr(0, name.find('_')));
}

TorchDiff diff_of(const std::string& name, const train::InferencePrecision& precision = {}) {
  return diff_torch(*golden_model(name), TorchRecording(recorded(name)), precision);
}

// A copy of a recording with something changed.
class ChangedRecording {
 public:
  explicit ChangedRecording(const std::string& name)
      : tensors(io::load_safetensors(recorded(name))) {
    metadata = io::SafetensorsFile(recorded(name)).metadata();
    metadata.erase("format");
  }
  TorchRecording open() const {
    io::save_safetensors(folder_ / "r.safetensors", tensors, metadata);
    return TorchRecording(folder_ / "r.safetensors");
  }
  // The tensor whose name ends so.
  Tensor& find(const std::string& beginning, const std::string& end) {
    for (auto& [name, tensor] : tensors) {
      if (name.starts_with(beginning) && name.ends_with(end)) return tensor;
    }
    throw std::runtime_error("no tensor " + end);
  }

  StateDict tensors;
  io::Metadata metadata;

 private:
  const testing::TemporaryFolder folder_;
};

TEST(TorchDiff, HealthyModelsAgreeInEveryTensor) {
  for (const char* name : {"llama_healthy", "gpt2_healthy"}) {
    const TorchDiff diff = diff_of(name);
    EXPECT_TRUE(diff.equal()) << torch_diff_text(diff, "model", name);
    EXPECT_THAT(diff.unpaired, IsEmpty());
    EXPECT_THAT(diff.notes, IsEmpty());
    EXPECT_GE(diff.results, 24);
    EXPECT_GE(diff.gradients, 19);
    EXPECT_EQ(diff.parameter_gradients, diff.weights);
    EXPECT_EQ(diff.noise, 0);
    EXPECT_LT(diff.farthest, 2e-6);
  }
}

struct Fault {
  const char* recording;
  const char* op;     // that must be named
  const char* torch;  // and its counterpart
};

class PlantedFault : public ::testing::TestWithParam<Fault> {};

TEST_P(PlantedFault, IsNamedAtItsFirstOp) {
  const TorchDiff diff = diff_of(GetParam().recording);
  ASSERT_TRUE(diff.first);
  EXPECT_EQ(diff.first->name, GetParam().op) << torch_diff_text(diff, "model", "recording");
  EXPECT_THAT(diff.first->torch, StartsWith(GetParam().torch));
  EXPECT_GT(diff.first->relative, diff.first->explained);
  EXPECT_NE(diff.first->value, diff.first->torch_value);
  EXPECT_THAT(diff.first->after, Not(IsEmpty()));
}

INSTANTIATE_TEST_SUITE_P(
    Torch, PlantedFault,
    ::testing::Values(
        Fault{"llama_theta", "activation/blocks.0.attention/rope",
              "model.layers.0.self_attn: add in apply_rotary_pos_emb"},
        Fault{"llama_interleaved", "activation/blocks.0.attention/rope",
              "model.layers.0.self_attn: add in interleaved"},
        Fault{"llama_eps", "activation/blocks.1.norm2/residual_rms_norm.1",
              "model.layers.1.post_attention_layernorm: mul"},
        Fault{"llama_offset", "activation/norm/residual_rms_norm.1", "model.norm: mul"},
        Fault{"llama_scale", "activation/blocks.1.attention/packed_attention",
              "model.layers.1.self_attn: matmul in eager_attention_forward"},
        Fault{"llama_mask", "activation/blocks.0.attention/packed_attention",
              "model.layers.0.self_attn: matmul in seeing_the_next"},
        Fault{"gpt2_gelu", "activation/blocks.0.mlp.up/linear", "transformer.h.0.mlp.act: gelu"},
        Fault{"llama_detached", "gradient/blocks.1.attention/rope",
              "model.layers.1.self_attn: add in apply_rotary_pos_emb"}),
    [](const auto& info) { return std::string(info.param.recording); });

TEST(TorchDiff, AGradientNamesTheBackwardThatMadeIt) {
  const TorchDiff diff = diff_of("llama_detached");
  ASSERT_TRUE(diff.first);
  EXPECT_EQ(diff.first->part, "k");
  EXPECT_EQ(diff.first->torch_value, 0);
  EXPECT_EQ(diff.first->computed_by, "blocks.1.attention/packed_attention");
  EXPECT_THAT(diff.first->after, ElementsAre("gradient/blocks.1.attention/packed_attention"));
}

TEST(TorchDiff, AnotherWeightIsNamedBeforeAnythingElse) {
  const auto model = golden_model("llama");
  for (const auto& [name, parameter] : model->named_parameters()) {
    const NoGrad no_grad;
    if (name == "blocks.1.attention.qkv.weight") copy_(parameter, parameter * 1.01);
  }
  const TorchDiff diff = diff_torch(*model, TorchRecording(recorded("llama_theta")));
  ASSERT_TRUE(diff.first);
  EXPECT_EQ(diff.first->name, "weight/model.layers.1.self_attn.q_proj.weight");
  EXPECT_NEAR(diff.first->relative, 0.01, 1e-4);
  EXPECT_NEAR(diff.first->value, 1.01 * diff.first->torch_value, 1e-5);
}

TEST(TorchDiff, AWeightThatDiffersBetweenTheSamplesIsFound) {
  const auto model = golden_model("llama");
  const Tensor embedding = model->named_parameters()["embedding.weight"].detach();
  embedding.mutable_data<float>()[1] += 1;  // every fifth of 160 is in the recording
  const TorchDiff diff = diff_torch(*model, TorchRecording(recorded("llama_healthy")));
  ASSERT_TRUE(diff.first);
  EXPECT_EQ(diff.first->name, "weight/model.embed_tokens.weight");
  EXPECT_THAT(torch_diff_text(diff, "a", "b"), HasSubstr("none of the 32 elements"));
}

TEST(TorchDiff, OneElementIsEnough) {
  ChangedRecording changed("llama_healthy");
  Tensor& down = changed.find("value/", "model.layers.1.mlp.down_proj/linear");
  down.mutable_data<float>()[13] += 1e-4f;
  const TorchDiff diff = diff_torch(*golden_model("llama"), changed.open());
  ASSERT_TRUE(diff.first);
  EXPECT_EQ(diff.first->name, "activation/blocks.1.mlp.down/linear");
  EXPECT_EQ(diff.first->index, (Shape{0, 1, 5}));
}

TEST(TorchDiff, ARecordingInBf16AgreesWithinItsRounding) {
  ChangedRecording changed("llama_healthy");
  for (auto& [name, tensor] : changed.tensors) {
    const bool is_value = name.starts_with("value/") || name.starts_with("gradient/") ||
                          name.starts_with("parameter/");
    if (is_value) tensor = cast(tensor, DType::bf16);
  }
  const TorchDiff diff = diff_torch(*golden_model("llama"), changed.open());
  EXPECT_TRUE(diff.equal()) << torch_diff_text(diff, "model", "recording");
  EXPECT_EQ(diff.roundoff, 0x1p-8);
  EXPECT_GT(diff.farthest, 1e-4);
}

TEST(TorchDiff, OfAForwardAloneNoGradientIsCompared) {
  const TorchDiff diff = diff_of("llama_theta");
  EXPECT_THAT(diff.notes, Contains(HasSubstr("only the forward")));
  ChangedRecording changed("llama_healthy");
  changed.tensors.erase("targets");
  const TorchDiff unaimed = diff_torch(*golden_model("llama"), changed.open());
  EXPECT_TRUE(unaimed.equal());
  EXPECT_EQ(unaimed.gradients + unaimed.parameter_gradients, 0);
  EXPECT_THAT(unaimed.notes, Contains(HasSubstr("give record() targets=")));
}

TEST(TorchDiff, RandomAndSkippedPartsAreNoted) {
  ChangedRecording changed("llama_healthy");
  changed.metadata["random"] = R"(["model.layers.0.dropout"])";
  changed.metadata["skipped"] = R"(["00007/model.layers.0/mul"])";
  const TorchDiff diff = diff_torch(*golden_model("llama"), changed.open());
  EXPECT_THAT(diff.notes, Contains(HasSubstr("at random, in model.layers.0.dropout")));
  EXPECT_THAT(diff.notes, Contains(HasSubstr("too large: 00007/model.layers.0/mul")));
}

TEST(TorchDiff, TextsOfTheFileCannotControlATerminal) {
  ChangedRecording changed("llama_theta");
  std::string& records = changed.metadata["records"];
  const std::string function = "apply_rotary_pos_emb";
  for (size_t at = records.find(function); at != records.npos; at = records.find(function, at))
    records.replace(at, function.size(), R"(\u001b[2J)");
  const TorchDiff diff = diff_torch(*golden_model("llama"), changed.open());
  ASSERT_TRUE(diff.first);
  EXPECT_THAT(diff.first->torch, HasSubstr(R"(add in \x1b[2J)"));
}

TEST(TorchDiff, WhereTheRecordingHasNothingTheNextModuleIsNamed) {
  ChangedRecording changed("llama_theta");
  // As without ops: results of modules alone.
  std::erase_if(changed.tensors, [](const auto& one) {
    return one.first.find("/model.layers.0.self_attn/") != std::string::npos;
  });
  const TorchDiff diff = diff_torch(*golden_model("llama"), changed.open());
  ASSERT_TRUE(diff.first);
  EXPECT_EQ(diff.first->name, "activation/blocks.0.attention.out/linear");
  EXPECT_THAT(diff.first->unseen, ElementsAre("activation/blocks.0.attention/rope",
                                              "activation/blocks.0.attention/packed_attention"));
}

TEST(TorchDiff, ARecordingOfAnotherModelIsRefused) {
  const TorchRecording recording(recorded("llama_healthy"));
  EXPECT_THAT(error_of([&] { diff_torch(*golden_model("gpt2"), recording); }),
              HasSubstr("give the model that was recorded"));
  nn::LanguageModelConfig config = golden_model("llama")->config();
  config.layers = 3;
  nn::LanguageModel deeper(config);
  EXPECT_THAT(error_of([&] { diff_torch(deeper, recording); }),
              HasSubstr("missing: model.layers.2.input_layernorm.weight [8]"));
  config.layers = 2;
  config.vocab = 4;
  nn::LanguageModel fewer(config);
  EXPECT_THAT(error_of([&] { diff_torch(fewer, recording); }),
              HasSubstr("expected tokens below the vocabulary's 4"));
  config.vocab = 20;
  config.context = 3;
  nn::LanguageModel shorter(config);
  EXPECT_THAT(error_of([&] { diff_torch(shorter, recording); }),
              HasSubstr("expected at most 3 tokens in a row"));
}

TEST(TorchDiff, APrecisionThatTellsNothingIsRefused) {
  const train::InferencePrecision fp8 = {.matmul = train::Precision::quantized,
                                         .recipe = amp::parse_recipe("row")};
  EXPECT_THAT(error_of([&] { diff_of("llama_mask", fp8); }), HasSubstr("give --precision fp32"));
}

TEST(TorchDiff, TheJsonHasWhatTheTextSays) {
  const std::string text = torch_diff_json(diff_of("llama_interleaved"));
  const json::Document document = json::parse(text, {.reader = "test", .file = "json"});
  EXPECT_FALSE(document.root().at("equal").boolean());
  const json::Value& first = document.root().at("first");
  EXPECT_EQ(first.at("name").string(), "activation/blocks.0.attention/rope");
  EXPECT_EQ(first.at("part").string(), "q");
  EXPECT_EQ(first.at("index").array().size(), 4u);
  EXPECT_GT(first.at("relative").number(), first.at("explained").number());
}

}  // namespace
}  // namespace binade::lab
