#include "binade/io/families/family.h"

namespace binade::io {

Family llama_like(std::string_view type, std::string_view architecture) {
  return {.type = type,
          .architecture = architecture,
          .facts = {.norm = nn::NormKind::rms,
                    .bias = false,
                    .gated = true,
                    .learned_positions = false},
          .layer_tensors = {{"input_layernorm", "norm1"},
                            {"self_attn.q_proj", "attention.qkv", Rows::q},
                            {"self_attn.k_proj", "attention.qkv", Rows::k},
                            {"self_attn.v_proj", "attention.qkv", Rows::v},
                            {"self_attn.q_norm", "attention.q_norm"},
                            {"self_attn.k_norm", "attention.k_norm"},
                            {"self_attn.o_proj", "attention.out"},
                            {"post_attention_layernorm", "norm2"},
                            {"mlp.gate_proj", "mlp.up", Rows::gate},
                            {"mlp.up_proj", "mlp.up", Rows::up},
                            {"mlp.down_proj", "mlp.down"}}};
}

Family llama() {
  Family family = llama_like("llama", "LlamaForCausalLM");
  family.keys.attention_bias = "attention_bias";
  family.keys.mlp_bias = "mlp_bias";
  return family;
}

}  // namespace binade::io
