#include "binade/io/families/family.h"

namespace binade::io {

// Biased LayerNorms and linears, attention and MLP side by side, the first quarter of a head
// rotated, and rows of q, k and v head by head.
Family gpt_neox() {
  return {.type = "gpt_neox",
          .architecture = "GPTNeoXForCausalLM",
          .facts = {.block = nn::BlockKind::parallel,
                    .activation = Activation::gelu,
                    .learned_positions = false},
          .keys = {.kv_heads = {},
                   .head_dim = {},
                   .eps = "layer_norm_eps",
                   .theta = "rotary_emb_base",
                   .rotary_fraction = "rotary_pct",
                   .parallel = "use_parallel_residual",
                   .attention_bias = "attention_bias"},
          .activations = {"gelu"},
          .eps = 1e-5,
          .rotary_fraction = 0.25,
          .prefix = "gpt_neox.",
          .head = "embed_out.weight",
          .tensors = {{"embed_in", "embedding"}, {"final_layer_norm", "norm"}},
          .layer_tensors = {{"input_layernorm", "norm1"},
                            {"attention.query_key_value", "attention.qkv", Rows::by_head},
                            {"attention.dense", "attention.out"},
                            {"post_attention_layernorm", "norm2"},
                            {"mlp.dense_h_to_4h", "mlp.up"},
                            {"mlp.dense_4h_to_h", "mlp.down"}}};
}

}  // namespace binade::io
