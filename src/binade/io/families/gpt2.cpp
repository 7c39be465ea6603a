#include "binade/io/families/family.h"

namespace binade::io {

// GPT-2 stores linears as [in, out], and q, k and v as one.
Family gpt2() {
  return {.type = "gpt2",
          .architecture = "GPT2LMHeadModel",
          .facts = {},
          .keys = {.layers = "n_layer",
                   .width = "n_embd",
                   .heads = "n_head",
                   .kv_heads = {},
                   .head_dim = {},
                   .hidden = "n_inner",
                   .context = "n_positions",
                   .eps = "layer_norm_epsilon",
                   .activation = "activation_function",
                   .theta = {}},
          .activations = {"gelu_new", "gelu_pytorch_tanh"},
          .eps = 1e-5,
          .tied = true,
          .hidden_ratio = 4,
          .scales_rope = false,
          .writes_dropout = true,
          .required = {{"scale_attn_weights", true},
                       {"scale_attn_by_inverse_layer_idx", false},
                       {"add_cross_attention", false}},
          .prefix = "transformer.",
          .layer = "h.",
          .tensors = {{"wte", "embedding"}, {"wpe", "positions"}, {"ln_f", "norm"}},
          .layer_tensors = {{"ln_1", "norm1"},
                            {"attn.c_attn", "attention.qkv", Rows::all, true},
                            {"attn.c_proj", "attention.out", Rows::all, true},
                            {"ln_2", "norm2"},
                            {"mlp.c_fc", "mlp.up", Rows::all, true},
                            {"mlp.c_proj", "mlp.down", Rows::all, true}}};
}

}  // namespace binade::io
