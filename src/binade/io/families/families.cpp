#include <algorithm>

#include "binade/io/families/family.h"

namespace binade::io {

const std::vector<Family>& families() {
  static const std::vector<Family> all = {gpt2(),   llama(),  mistral(), qwen2(), qwen3(),
                                          gemma2(), gemma3(), phi3(),    olmo2(), gpt_neox()};
  return all;
}

const Family* find_family(std::string_view type) {
  const auto found = std::find_if(families().begin(), families().end(),
                                  [&](const Family& family) { return family.type == type; });
  return found == families().end() ? nullptr : &*found;
}

std::string_view difference_of(std::string_view type) {
  constexpr std::pair<std::string_view, std::string_view> known[] = {
      {"bert", "an encoder without causal attention"},
      {"bloom", "ALiBi positions"},
      {"cohere", "LayerNorm without bias and scaled logits"},
      {"deepseek_v2", "latent attention and a mixture of experts"},
      {"deepseek_v3", "latent attention and a mixture of experts"},
      {"falcon", "one norm for attention and MLP"},
      {"gemma", "a pre-norm Gemma"},
      {"gemma3", "a vision tower beside the text model (gemma3_text)"},
      {"gpt_bigcode", "one key head beside learned positions"},
      {"gpt_neo", "local attention without score scaling"},
      {"gpt_oss", "attention sinks and a mixture of experts"},
      {"gptj", "rotary positions of adjacent channels"},
      {"llama4", "a mixture of experts"},
      {"mamba", "state space layers instead of attention"},
      {"mixtral", "a mixture of experts"},
      {"mpt", "ALiBi positions"},
      {"olmo", "LayerNorm without weights"},
      {"olmoe", "a mixture of experts"},
      {"opt", "ReLU and positions that begin at 2"},
      {"phi", "a parallel block with a single norm"},
      {"phimoe", "a mixture of experts"},
      {"qwen2_moe", "a mixture of experts"},
      {"qwen3_moe", "a mixture of experts"},
      {"stablelm", "LayerNorm in a SwiGLU model"},
      {"starcoder2", "biased LayerNorm with rotary positions"},
      {"t5", "an encoder and a decoder"},
  };
  for (const auto& [name, difference] : known) {
    if (name == type) return difference;
  }
  return {};
}

}  // namespace binade::io
