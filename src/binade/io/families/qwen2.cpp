#include "binade/io/families/family.h"

namespace binade::io {

// Qwen2 and 2.5: q, k and v have biases, the output projection none.
Family qwen2() {
  Family family = llama_like("qwen2", "Qwen2ForCausalLM");
  family.facts.qkv_bias = true;
  family.keys.head_dim = {};
  family.windows = Windows::late_layers;
  family.window = 4096;
  return family;
}

}  // namespace binade::io
