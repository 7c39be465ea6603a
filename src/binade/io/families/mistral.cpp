#include "binade/io/families/family.h"

namespace binade::io {

// A Llama whose queries see a window in every layer.
Family mistral() {
  Family family = llama_like("mistral", "MistralForCausalLM");
  family.windows = Windows::all_layers;
  family.window = 4096;
  return family;
}

}  // namespace binade::io
