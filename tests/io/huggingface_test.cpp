#include "binade/io/huggingface.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/shape/shape.h"
#include "io/temporary_folder.h"
#include "support/error_of.h"

namespace binade::io {
namespace {

using ::binade::testing::golden;
using ::binade::testing::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr nn::GPTConfig tiny_gpt{.layers = 2, .width = 12, .heads = 3, .vocab = 17, .context = 8};
constexpr nn::LlamaConfig tiny_llama{
    .layers = 2, .width = 12, .heads = 6, .kv_heads = 2, .hidden = 10, .vocab = 17, .context = 8};

// The weights of a recorded run, under the names transformers gave them.
StateDict recorded_weights(const char* name) {
  StateDict weights = load_safetensors(golden(name));
  std::erase_if(weights, [](const auto& item) { return item.first.starts_with("run/"); });
  return weights;
}

nn::LanguageModelConfig recorded_config(const char* name) {
  const TemporaryFolder folder;
  return read_config(
      folder.put("config.json", SafetensorsFile(golden(name)).metadata().at("config")));
}

void expect_equal(const StateDict& a, const StateDict& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) {
    ASSERT_TRUE(b.contains(name)) << name;
    EXPECT_EQ(tensor.shape(), b.at(name).shape()) << name;
    EXPECT_EQ(tensor.dtype(), b.at(name).dtype()) << name;
    EXPECT_EQ(to_vector(tensor), to_vector(b.at(name))) << name;
  }
}

TEST(HuggingFace, RecordedWeightsGoInAndComeOutTheSame) {
  for (const char* name : {"gpt2_run.safetensors", "llama_run.safetensors"}) {
    const StateDict weights = recorded_weights(name);
    nn::LanguageModel model(recorded_config(name));
    load_huggingface(model, weights);
    expect_equal(to_huggingface(model), weights);
  }
}

TEST(HuggingFace, Gpt2WeightsAreTransposed) {
  nn::GPT model(tiny_gpt);
  const StateDict ours = model.state_dict(), theirs = to_huggingface(model);
  EXPECT_EQ(theirs.at("transformer.h.1.attn.c_attn.weight").shape(), (Shape{12, 36}));
  EXPECT_EQ(theirs.at("transformer.h.1.mlp.c_proj.weight").shape(), (Shape{48, 12}));
  EXPECT_EQ(to_vector(theirs.at("transformer.h.1.mlp.c_fc.weight")),
            to_vector(transpose(ours.at("blocks.1.mlp.up.weight"), 0, 1)));
  EXPECT_FALSE(theirs.contains("lm_head.weight"));
  EXPECT_EQ(theirs.size(), 4u + 12u * 2u);
}

TEST(HuggingFace, LlamaPacksAreSplit) {
  nn::Llama model(tiny_llama);
  const StateDict ours = model.state_dict(), theirs = to_huggingface(model);
  const Tensor qkv = ours.at("blocks.0.attention.qkv.weight"),
               up = ours.at("blocks.0.mlp.up.weight");
  const auto rows = [](const Tensor& x, int64_t begin, int64_t end) {
    return to_vector(slice(x, 0, begin, end));
  };
  EXPECT_EQ(to_vector(theirs.at("model.layers.0.self_attn.q_proj.weight")), rows(qkv, 0, 12));
  EXPECT_EQ(to_vector(theirs.at("model.layers.0.self_attn.k_proj.weight")), rows(qkv, 12, 16));
  EXPECT_EQ(to_vector(theirs.at("model.layers.0.self_attn.v_proj.weight")), rows(qkv, 16, 20));
  EXPECT_EQ(to_vector(theirs.at("model.layers.0.mlp.gate_proj.weight")), rows(up, 0, 10));
  EXPECT_EQ(to_vector(theirs.at("model.layers.0.mlp.up_proj.weight")), rows(up, 10, 20));
  EXPECT_TRUE(theirs.contains("lm_head.weight"));
  nn::LlamaConfig tied = tiny_llama;
  tied.tied_head = true;
  EXPECT_FALSE(to_huggingface(nn::Llama(tied)).contains("lm_head.weight"));
}

TEST(HuggingFace, ExportHasMemoryOfItsOwn) {
  nn::GPT model(tiny_gpt);
  const StateDict theirs = to_huggingface(model);
  fill_(theirs.at("transformer.wte.weight"), 7);
  EXPECT_NE(to_vector(model.state_dict().at("embedding.weight"))[0], 7);
}

TEST(HuggingFace, Gpt2NamesMayLackThePrefix) {
  nn::GPT model(tiny_gpt),
      other({.layers = 2, .width = 12, .heads = 3, .vocab = 17, .context = 8, .seed = 9});
  StateDict bare;
  for (const auto& [name, tensor] : to_huggingface(model))
    bare[name.substr(std::string("transformer.").size())] = tensor;
  bare["h.0.attn.bias"] = ones({1, 1, 8, 8}, DType::boolean);
  bare["h.1.attn.masked_bias"] = tensor({-1e4}, {});
  load_huggingface(other, bare);
  expect_equal(other.state_dict(), model.state_dict());
}

TEST(HuggingFace, ATiedHeadMayBeThereTwiceIfItIsTheSame) {
  nn::GPT model(tiny_gpt);
  StateDict weights = to_huggingface(model);
  weights["lm_head.weight"] = clone(weights.at("transformer.wte.weight"));
  EXPECT_NO_THROW(load_huggingface(model, weights));
  weights["lm_head.weight"].mutable_data<float>()[5] += 1;
  EXPECT_THAT(test::error_of([&] { load_huggingface(model, weights); }),
              AllOf(HasSubstr("lm_head.weight"), HasSubstr("transformer.wte.weight"),
                    HasSubstr("tie_word_embeddings")));
}

TEST(HuggingFace, TypesAreConverted) {
  nn::Llama model(tiny_llama), narrow(tiny_llama, Device::cpu(), DType::bf16);
  StateDict weights = to_huggingface(model);
  for (auto& [name, tensor] : weights) tensor = cast(tensor, DType::bf16);
  load_huggingface(model, weights);
  load_huggingface(narrow, weights);
  expect_equal(to_huggingface(narrow), weights);
  for (const auto& [name, tensor] : to_huggingface(model))
    EXPECT_EQ(to_vector(tensor), to_vector(weights.at(name)));
}

TEST(HuggingFace, OneErrorNamesEveryDifferenceAndNothingChanges) {
  nn::Llama model(tiny_llama);
  const StateDict before = to_huggingface(model);
  StateDict weights = before;
  for (auto& [name, tensor] : weights) tensor = zeros(tensor.shape());
  weights.erase("model.norm.weight");
  weights.erase("model.layers.1.self_attn.k_proj.weight");
  weights["model.layers.0.mlp.up_proj.weight"] = zeros({12, 10});
  weights["model.layers.0.mlp.gate_proj.weight"] = zeros({10, 12}, DType::i64);
  weights["model.layers.2.mlp.up_proj.weight"] = zeros({10, 12});
  EXPECT_THAT(test::error_of([&] { load_huggingface(model, weights); }),
              AllOf(HasSubstr("missing: model.norm.weight [12]"),
                    HasSubstr("missing: model.layers.1.self_attn.k_proj.weight [4, 12]"),
                    HasSubstr("model.layers.0.mlp.up_proj.weight: expected [10, 12] of a "
                              "floating type, found [12, 10] f32"),
                    HasSubstr("model.layers.0.mlp.gate_proj.weight: expected [10, 12] of a "
                              "floating type, found [10, 12] i64"),
                    HasSubstr("not in this model: \"model.layers.2.mlp.up_proj.weight\""),
                    Not(HasSubstr("q_proj"))));
  expect_equal(to_huggingface(model), before);
  EXPECT_THROW(load_huggingface(model, {}), Error);
  EXPECT_THROW(load_huggingface(model, recorded_weights("gpt2_run.safetensors")), Error);
}

TEST(HuggingFace, ModelsInBetweenHaveNoLayout) {
  const nn::LanguageModel model(
      {.layers = 1, .width = 8, .heads = 2, .hidden = 16, .vocab = 5, .context = 4, .gated = true});
  EXPECT_THAT(test::error_of([&] { to_huggingface(model); }),
              AllOf(HasSubstr("a GPT-2"), HasSubstr("LayerNorm, biases, SwiGLU, learned")));
}

TEST(Pretrained, ComesBackTheSame) {
  const TemporaryFolder folder;
  nn::GPT gpt(tiny_gpt);
  nn::Llama llama(tiny_llama, Device::cpu(), DType::bf16);
  nn::LanguageModel* models[] = {&gpt, &llama};
  for (nn::LanguageModel* model : models) {
    const auto directory = folder / "some/where";
    save_pretrained(*model, directory);
    const DType dtype = model->parameters()[0].dtype();
    const auto read = load_pretrained(directory, {Device::cpu(), dtype});
    expect_equal(read->state_dict(), model->state_dict());
    const Tensor tokens = randint(0, 17, {2, 8}, {1, 2});
    EXPECT_EQ(to_vector(read->logits(tokens)), to_vector(model->logits(tokens)));
  }
}

TEST(Pretrained, ReadsShards) {
  const TemporaryFolder folder;
  nn::Llama model(tiny_llama);
  save_pretrained(model, folder.path());
  StateDict shards[2];
  std::string map;
  size_t i = 0;
  for (const auto& [name, tensor] : to_huggingface(model)) {
    shards[i % 2][name] = tensor;
    map += (map.empty() ? "\"" : ",\"") + name + "\":\"part-" + std::to_string(i % 2) +
           ".safetensors\"";
    ++i;
  }
  save_safetensors(folder / "part-0.safetensors", shards[0]);
  save_safetensors(folder / "part-1.safetensors", shards[1]);
  std::filesystem::remove(folder / "model.safetensors");
  folder.put("model.safetensors.index.json", "{\"weight_map\":{" + map + "}}");
  expect_equal(load_pretrained(folder.path())->state_dict(), model.state_dict());
}

TEST(Pretrained, RefusesAConfigurationThatItsWeightsContradict) {
  const TemporaryFolder folder;
  nn::GPT model(tiny_gpt);
  save_pretrained(model, folder.path());
  nn::LanguageModelConfig wide = model.config();
  wide.width = 1 << 20;
  wide.vocab = 1 << 30;
  wide.hidden = 1 << 22;
  wide.heads = 4;
  write_config(folder / "config.json", wide);
  const int64_t before = memory::peak();
  EXPECT_THAT(test::error_of([&] { load_pretrained(folder.path()); }),
              HasSubstr("transformer.wte.weight: expected [1073741824, 1048576]"));
  EXPECT_EQ(memory::peak(), before);
  EXPECT_THAT(test::error_of([&] { load_pretrained(folder / "absent"); }),
              HasSubstr("config.json"));
  std::filesystem::remove(folder / "model.safetensors");
  EXPECT_THAT(test::error_of([&] { load_pretrained(folder.path()); }),
              HasSubstr("model.safetensors.index.json"));
}

TEST(Pretrained, SaysWhyAFolderCannotBeWritten) {
  const TemporaryFolder folder;
  folder.put("file", "x");
  EXPECT_THAT(test::error_of([&] { save_pretrained(nn::GPT(tiny_gpt), folder / "file/inside"); }),
              HasSubstr("a folder to write to"));
}

}  // namespace
}  // namespace binade::io
