#include "binade/io/families/family.h"

namespace binade::io {
namespace {

// Norms around attention and MLP with factors 1 + w, GELU gates, a scaled embedding, and scores
// scaled by a constant of their own.
Family gemma_like(std::string_view type, std::string_view architecture) {
  Family family = llama_like(type, architecture);
  family.facts.norm_weight = nn::NormWeight::plus_one;
  family.facts.block = nn::BlockKind::sandwich;
  family.facts.activation = Activation::gelu_tanh;
  family.facts.attention_scale = 1.0 / 16;  // of the default query_pre_attn_scalar, 256
  family.keys.activation = "hidden_activation";
  family.keys.attention_bias = "attention_bias";
  family.keys.query_scalar = "query_pre_attn_scalar";
  family.keys.logit_softcap = "final_logit_softcapping";
  family.activations = {"gelu_pytorch_tanh"};
  family.tied = true;
  family.head_dim = 256;
  family.window = 4096;
  family.scales_embedding = true;
  for (TensorFact& fact : family.layer_tensors) {
    if (fact.parameter == "norm2") fact.file = "pre_feedforward_layernorm";
  }
  family.layer_tensors.push_back({"post_attention_layernorm", "post_norm1"});
  family.layer_tensors.push_back({"post_feedforward_layernorm", "post_norm2"});
  return family;
}

}  // namespace

Family gemma2() {
  Family family = gemma_like("gemma2", "Gemma2ForCausalLM");
  family.facts.attention_softcap = 50;
  family.facts.logit_softcap = 30;
  family.keys.attention_softcap = "attn_logit_softcapping";
  family.windows = Windows::even_layers;
  family.scales_rope = false;
  return family;
}

// The text model. transformers ignores attn_logit_softcapping here.
Family gemma3() {
  Family family = gemma_like("gemma3_text", "Gemma3ForCausalLM");
  family.facts.qk_norm = nn::QueryKeyNorm::per_head;
  family.facts.local_rope_theta = 10000;
  family.keys.local_theta = "rope_local_base_freq";
  family.theta = 1e6;
  family.windows = Windows::five_of_six;
  return family;
}

}  // namespace binade::io
