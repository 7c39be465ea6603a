#include "binade/io/families/family.h"

namespace binade::io {

// A Llama with packed projections, as Binade has them, and possibly only a part of a head rotated.
Family phi3() {
  Family family = llama_like("phi3", "Phi3ForCausalLM");
  family.keys.head_dim = {};
  family.keys.rotary_fraction = "partial_rotary_factor";
  family.eps = 1e-5;
  family.windows = Windows::all_layers;
  family.scales_rope = false;
  family.layer_tensors = {
      {"input_layernorm", "norm1"},          {"self_attn.qkv_proj", "attention.qkv"},
      {"self_attn.o_proj", "attention.out"}, {"post_attention_layernorm", "norm2"},
      {"mlp.gate_up_proj", "mlp.up"},        {"mlp.down_proj", "mlp.down"}};
  return family;
}

}  // namespace binade::io
