#include "binade/io/huggingface_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/io/huggingface.h"
#include "io/temporary_folder.h"

namespace binade::io {
namespace {

using ::binade::testing::content_of;
using ::binade::testing::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const std::string gpt2 =
    R"({"activation_function":"gelu_new","architectures":["GPT2LMHeadModel"],"attn_pdrop":0.1,
  "bos_token_id":50256,"embd_pdrop":0.1,"eos_token_id":50256,"initializer_range":0.02,"layer_norm_epsilon":1e-05,
  "model_type":"gpt2","n_ctx":1024,"n_embd":768,"n_head":12,"n_layer":12,"n_positions":1024,"resid_pdrop":0.1,
  "summary_activation":null,"task_specific_params":{"text-generation":{"do_sample":true,"max_length":50}},"vocab_size":50257})";

const std::string llama =
    R"({"architectures":["LlamaForCausalLM"],"attention_bias":false,"bos_token_id":1,"eos_token_id":2,
  "hidden_act":"silu","hidden_size":2048,"initializer_range":0.02,"intermediate_size":5632,"max_position_embeddings":4096,
  "model_type":"llama","num_attention_heads":32,"num_hidden_layers":22,"num_key_value_heads":4,"pretraining_tp":1,
  "rms_norm_eps":1e-05,"rope_scaling":null,"rope_theta":500000.0,"tie_word_embeddings":false,"torch_dtype":"bfloat16",
  "use_cache":true,"vocab_size":32000})";

nn::LanguageModelConfig read(const std::string& text) {
  const TemporaryFolder folder;
  return read_config(folder.put("config.json", text));
}

std::string with(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  if (at == std::string::npos) throw std::logic_error("not in the text: " + from);
  return text.replace(at, from.size(), to);
}

TEST(HuggingFaceConfig, ReadsGpt2) {
  const nn::LanguageModelConfig config = read(gpt2);
  EXPECT_EQ(config.layers, 12);
  EXPECT_EQ(config.width, 768);
  EXPECT_EQ(config.heads, 12);
  EXPECT_EQ(config.hidden, 3072);
  EXPECT_EQ(config.vocab, 50257);
  EXPECT_EQ(config.context, 1024);
  EXPECT_EQ(config.eps, 1e-5);
  EXPECT_EQ(config.dropout, 0);
  EXPECT_TRUE(config.tied_head);
  EXPECT_EQ(family_of(config).type, "gpt2");
  EXPECT_EQ(config.bos, 50256);
  EXPECT_EQ(nn::LanguageModel(config, {Device::meta()}).parameter_count(), 124439808);
  EXPECT_EQ(read(with(gpt2, "\"n_ctx\":1024", "\"n_inner\":100")).hidden, 100);
}

TEST(HuggingFaceConfig, ReadsLlama) {
  const nn::LanguageModelConfig config = read(llama);
  EXPECT_EQ(config.layers, 22);
  EXPECT_EQ(config.width, 2048);
  EXPECT_EQ(config.heads, 32);
  EXPECT_EQ(config.kv_heads, 4);
  EXPECT_EQ(config.hidden, 5632);
  EXPECT_EQ(config.vocab, 32000);
  EXPECT_EQ(config.context, 4096);
  EXPECT_EQ(config.eps, 1e-5);
  EXPECT_EQ(config.rope_theta, 500000);
  EXPECT_FALSE(config.tied_head);
  EXPECT_EQ(family_of(config).type, "llama");
  EXPECT_EQ(config.eos, std::vector<int64_t>{2});
  // TinyLlama's own count.
  EXPECT_EQ(nn::LanguageModel(config, {Device::meta()}).parameter_count(), 1100048384);
  EXPECT_EQ(read(with(llama, "\"rope_theta\":500000.0",
                      "\"rope_parameters\":{\"rope_theta\":123.0,\"rope_type\":\"default\"}"))
                .rope_theta,
            123);
  EXPECT_EQ(read(with(llama, "\"num_key_value_heads\":4,", "")).kv_heads, 32);
  EXPECT_EQ(read(with(llama, "\"rope_theta\":500000.0,", "")).rope_theta, 10000);
  EXPECT_EQ(read(with(llama, "\"rms_norm_eps\":1e-05,", "")).eps, 1e-6);  // transformers' default
}

// Each file says a thing twice; the second element, or the form that wins, is told from the other.
TEST(HuggingFaceConfig, ReadsAllOfAListAndTheFormThatWins) {
  EXPECT_EQ(read(with(llama, "\"eos_token_id\":2", "\"eos_token_id\":[2,5,9]")).eos,
            (std::vector<int64_t>{2, 5, 9}));
  const std::string theta = "\"rope_theta\":500000.0", scaling = "\"rope_scaling\":null";
  const std::string newer =
      "\"rope_parameters\":{\"rope_theta\":123.0,\"rope_type\":\"linear\",\"factor\":2.0}";
  // Newer than rope_theta.
  const nn::LanguageModelConfig one = read(with(llama, theta, theta + "," + newer));
  EXPECT_EQ(one.rope_theta, 123);
  EXPECT_EQ(one.rope_scaling.factor, 2);
  // Older, but transformers lets it win.
  const nn::LanguageModelConfig both =
      read(with(with(llama, theta, newer), scaling,
                "\"rope_scaling\":{\"rope_theta\":77.0,\"rope_type\":\"linear\",\"factor\":8.0}"));
  EXPECT_EQ(both.rope_theta, 77);
  EXPECT_EQ(both.rope_scaling.factor, 8);
}

TEST(HuggingFaceConfig, WhatIsWrittenReadsBack) {
  const TemporaryFolder folder;
  nn::LanguageModelConfig configs[] = {
      read(gpt2),
      read(llama),
      read(with(gpt2, "\"n_ctx\":1024", "\"n_inner\":100")),
      read(with(llama, "\"tie_word_embeddings\":false", "\"tie_word_embeddings\":true")),
      read(with(gpt2, "\"n_ctx\":1024", "\"tie_word_embeddings\":false")),
      read(with(llama, "\"eos_token_id\":2", "\"eos_token_id\":[2,5,9]"))};
  for (const nn::LanguageModelConfig& config : configs) {
    write_config(folder / "config.json", config, DType::bf16);
    const nn::LanguageModelConfig again = read_config(folder / "config.json");
    EXPECT_EQ(again.layers, config.layers);
    EXPECT_EQ(again.width, config.width);
    EXPECT_EQ(again.heads, config.heads);
    EXPECT_EQ(again.kv_heads, config.kv_heads);
    EXPECT_EQ(again.hidden, config.hidden);
    EXPECT_EQ(again.vocab, config.vocab);
    EXPECT_EQ(again.context, config.context);
    EXPECT_EQ(again.eps, config.eps);
    EXPECT_EQ(again.rope_theta, config.rope_theta);
    EXPECT_EQ(again.tied_head, config.tied_head);
    EXPECT_EQ(family_of(again).type, family_of(config).type);
    EXPECT_EQ(again.bos, config.bos);
    EXPECT_EQ(again.eos, config.eos);
    EXPECT_THAT(content_of(folder / "config.json"), HasSubstr("\"bfloat16\""));
  }
}

TEST(HuggingFaceConfig, RefusesWhatBinadeDoesNotHave) {
  struct Bad {
    std::string text;
    std::vector<std::string> parts;
  };
  const Bad table[] = {
      {"", {"unexpected end of input"}},
      {"[]", {"expected an object"}},
      {"{}", {"expected a member \"model_type\""}},
      {with(gpt2, "\"gpt2\"", "\"bert\""),
       {"(model_type)", "gpt2, llama, mistral", "or gpt_neox", "\"bert\"", "an encoder"}},
      {with(gpt2, "\"gpt2\"", "7"), {"(model_type)", "expected a string"}},
      {with(gpt2, "\"n_layer\":12,", ""), {"expected a member \"n_layer\""}},
      {with(gpt2, "\"n_layer\":12", "\"n_layer\":0"), {"(n_layer)", "from 1 to 4096, found 0"}},
      {with(gpt2, "\"n_layer\":12", "\"n_layer\":-1"), {"(n_layer)", "found -1"}},
      {with(gpt2, "\"n_layer\":12", "\"n_layer\":1000000000"), {"(n_layer)", "found 1000000000"}},
      {with(gpt2, "\"n_layer\":12", "\"n_layer\":12.5"), {"(n_layer)", "found 12.5"}},
      {with(gpt2, "\"n_layer\":12", "\"n_layer\":\"12\""), {"(n_layer)", "found \"12\""}},
      {with(gpt2, "\"n_layer\":12", "\"n_layer\":12,\"n_layer\":12"), {"\"n_layer\" twice"}},
      {with(gpt2, "\"n_head\":12", "\"n_head\":7"), {"(n_head)", "a divisor of 768, found 7"}},
      {with(gpt2, "gelu_new", "relu"),
       {"(activation_function)", "gelu_new or gelu_pytorch_tanh", "\"relu\""}},
      {with(gpt2, "1e-05", "0"), {"(layer_norm_epsilon)", "more than 0"}},
      {with(gpt2, "1e-05", "1e999"), {"number overflow"}},
      {with(gpt2, "\"n_ctx\":1024", "\"scale_attn_weights\":false"),
       {"(scale_attn_weights)", "expected true, found false"}},
      {with(gpt2, "\"n_ctx\":1024", "\"scale_attn_by_inverse_layer_idx\":true"),
       {"(scale_attn_by_inverse_layer_idx)"}},
      {with(gpt2, "\"n_ctx\":1024", "\"add_cross_attention\":true"), {"(add_cross_attention)"}},
      {with(gpt2, "\"n_positions\":1024", "\"n_positions\":1000000000"), {"(n_positions)"}},
      {with(llama, "\"llama\"", "\"mixtral\""), {"(model_type)", "a mixture of experts"}},
      {with(llama, "\"attention_bias\":false", "\"attention_bias\":1"), {"(attention_bias)"}},
      {with(llama, "\"eos_token_id\":2", "\"eos_token_id\":\"</s>\""), {"(eos_token_id)"}},
      {with(llama, "\"silu\"", "\"gelu\""), {"(hidden_act)", "silu"}},
      {with(llama, "\"use_cache\":true", "\"head_dim\":63"),
       {"(head_dim)", "an even number of rotated channels per head, found 63"}},
      {with(llama, "\"num_key_value_heads\":4", "\"num_key_value_heads\":5"),
       {"(num_key_value_heads)", "a divisor of 32, found 5"}},
      {with(llama, "\"num_attention_heads\":32", "\"num_attention_heads\":3"),
       {"(num_attention_heads)", "a divisor of 2048"}},
      {with(llama, "\"rope_scaling\":null",
            "\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":8.0}"),
       {"(rope_scaling.rope_type)", "default, linear or llama3", "\"yarn\""}},
      {with(llama, "\"rope_scaling\":null",
            "\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8.0}"),
       {"original_max_position_embeddings"}},
      {with(llama, "\"rope_scaling\":null",
            "\"rope_scaling\":{\"type\":\"linear\",\"factor\":0.5}"),
       {"(rope_scaling.factor)", "at least 1"}},
      {with(with(llama, "\"llama\"", "\"qwen3\""), "\"use_cache\":true",
            "\"layer_types\":[\"full_attention\"]"),
       {"(layer_types)", "22 layers, found 1"}},
      {with(llama, "500000.0", "-1"), {"(rope_theta)", "more than 0"}},
      {with(llama, "\"tie_word_embeddings\":false", "\"tie_word_embeddings\":1"),
       {"(tie_word_embeddings)", "true or false"}},
      {std::string((1 << 20) + 1, ' '), {"at most 1048576 bytes"}},
  };
  const TemporaryFolder folder;
  for (const Bad& bad : table) {
    const auto path = folder.put("config.json", bad.text);
    std::string message = "no error";
    try {
      read_config(path);
    } catch (const Error& error) {
      message = error.what();
    }
    EXPECT_THAT(message, HasSubstr("config.json: " + path.string()));
    for (const std::string& part : bad.parts) EXPECT_THAT(message, HasSubstr(part));
  }
}

}  // namespace
}  // namespace binade::io
