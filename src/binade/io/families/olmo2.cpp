#include "binade/io/families/family.h"

namespace binade::io {

// Norms after attention and MLP only, and over all heads of q and of k.
Family olmo2() {
  Family family = llama_like("olmo2", "Olmo2ForCausalLM");
  family.facts.block = nn::BlockKind::post_norm;
  family.facts.qk_norm = nn::QueryKeyNorm::all_heads;
  family.keys.head_dim = {};
  family.keys.attention_bias = "attention_bias";
  family.eps = 1e-5;
  family.layer_tensors.push_back({"post_attention_layernorm", "post_norm1"});
  family.layer_tensors.push_back({"post_feedforward_layernorm", "post_norm2"});
  return family;
}

}  // namespace binade::io
