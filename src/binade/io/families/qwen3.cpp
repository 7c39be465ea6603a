#include "binade/io/families/family.h"

namespace binade::io {

// Each head of q and k is normalized.
Family qwen3() {
  Family family = llama_like("qwen3", "Qwen3ForCausalLM");
  family.facts.qk_norm = nn::QueryKeyNorm::per_head;
  family.keys.attention_bias = "attention_bias";
  family.head_dim = 128;
  family.windows = Windows::late_layers;
  family.window = 4096;
  return family;
}

}  // namespace binade::io
