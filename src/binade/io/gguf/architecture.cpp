#include "binade/io/gguf/architecture.h"

#include <fmt/format.h>

#include <algorithm>

#include "binade/autograd/grad_mode.h"
#include "binade/base/error.h"
#include "binade/io/gguf/format.h"
#include "binade/io/huggingface_config.h"
#include "binade/ops/shape/shape.h"

namespace binade::io::gguf {
namespace {

constexpr std::string_view rms_key = "attention.layer_norm_rms_epsilon",
                           layer_key = "attention.layer_norm_epsilon";

// GGUF's name of a module of a block, or of the model; empty if there is none.
std::string_view name_of(std::string_view module, Rows rows) {
  struct Name {
    std::string_view module;
    Rows rows;
    std::string_view name;
  };
  static constexpr Name names[] = {
      {"embedding", Rows::all, "token_embd"},
      {"positions", Rows::all, "position_embd"},
      {"norm", Rows::all, "output_norm"},
      {"norm1", Rows::all, "attn_norm"},
      {"attention.qkv", Rows::q, "attn_q"},
      {"attention.qkv", Rows::k, "attn_k"},
      {"attention.qkv", Rows::v, "attn_v"},
      {"attention.qkv", Rows::all, "attn_qkv"},
      {"attention.qkv", Rows::by_head, "attn_qkv"},
      {"attention.q_norm", Rows::all, "attn_q_norm"},
      {"attention.k_norm", Rows::all, "attn_k_norm"},
      {"attention.out", Rows::all, "attn_output"},
      {"post_norm1", Rows::all, "post_attention_norm"},
      {"norm2", Rows::all, "ffn_norm"},
      {"mlp.up", Rows::gate, "ffn_gate"},
      {"mlp.up", Rows::up, "ffn_up"},
      {"mlp.up", Rows::all, "ffn_up"},
      {"mlp.down", Rows::all, "ffn_down"},
      {"post_norm2", Rows::all, "post_ffw_norm"},
  };
  const auto* found = std::find_if(std::begin(names), std::end(names), [&](const Name& one) {
    return one.module == module && one.rows == rows;
  });
  return found == std::end(names) ? std::string_view() : found->name;
}

// "blocks.3.mlp.up.weight" as "blk.3.ffn_up.weight".
std::string file_name(const Part& part) {
  if (part.parameter == "head") return std::string(output_weight);
  std::string_view module = part.parameter;
  std::string layer;
  if (module.starts_with("blocks.")) {
    module.remove_prefix(std::string_view("blocks.").size());
    layer = fmt::format("blk.{}.", module.substr(0, module.find('.')));
    module.remove_prefix(module.find('.') + 1);
  }
  const std::string_view suffix = module.substr(module.rfind('.'));
  const std::string_view name = name_of(module.substr(0, module.rfind('.')), part.kind);
  if (name.empty())
    fail(
        reader_name,
        {.argument = part.parameter, .expected = "a weight that GGUF has a name for", .found = ""});
  return fmt::format("{}{}{}", layer, name, suffix);
}

}  // namespace

const std::vector<Architecture>& architectures() {
  static const std::vector<Architecture> all = {
      {"gpt2", "gpt2", layer_key},
      {.name = "llama",
       .family = "llama",
       .norm_key = rms_key,
       .interleaves_rope = true,
       .optional_bias = true},
      {"qwen2", "qwen2", rms_key},
      {"qwen3", "qwen3", rms_key},
      {"gemma2", "gemma2", rms_key},
      {"gemma3", "gemma3_text", rms_key},
      {"phi3", "phi3", rms_key},
      {.name = "olmo2", .family = "olmo2", .norm_key = rms_key, .needs_output = true},
      {.name = "gptneox", .family = "gpt_neox", .norm_key = layer_key, .needs_output = true},
  };
  return all;
}

const Architecture* find_architecture(std::string_view name) {
  const auto found = std::find_if(architectures().begin(), architectures().end(),
                                  [&](const Architecture& one) { return one.name == name; });
  return found == architectures().end() ? nullptr : &*found;
}

const Architecture& architecture_of(const nn::LanguageModelConfig& config) {
  const std::string_view type = family_of(config).type;
  // A Mistral without a window is a Llama.
  const std::string_view family = type == "mistral" ? "llama" : type;
  const auto found = std::find_if(architectures().begin(), architectures().end(),
                                  [&](const Architecture& one) { return one.family == family; });
  if (found == architectures().end())
    fail(reader_name, {.argument = "model",
                       .expected = "a family that GGUF has an architecture for",
                       .found = std::string(type)});
  return *found;
}

std::vector<NamedPart> named_parts(const Architecture& architecture,
                                   const nn::LanguageModelConfig& config,
                                   const StateDict& parameters) {
  const int64_t kv_heads = config.kv_heads == 0 ? config.heads : config.kv_heads;
  std::vector<NamedPart> parts;
  for (Part& part : parts_of(config, parameters)) {
    NamedPart named{.name = file_name(part), .part = part};
    named.part.transposed = false;
    named.part.heads = 0;
    if (architecture.interleaves_rope && part.kind == Rows::q)
      named.interleaved_heads = config.heads;
    if (architecture.interleaves_rope && part.kind == Rows::k) named.interleaved_heads = kv_heads;
    named.plus_one =
        config.norm_weight == nn::NormWeight::plus_one && named.name.ends_with("norm.weight");
    parts.push_back(std::move(named));
  }
  return parts;
}

Tensor view_of(const StateDict& parameters, const NamedPart& part) {
  const NoGrad no_grad;
  const Tensor view = io::view_of(parameters, part.part);
  if (part.interleaved_heads == 0) return view;
  const int64_t pairs = view.size(0) / part.interleaved_heads / 2;
  const int64_t rest = view.rank() == 2 ? view.size(1) : 1;
  return transpose(reshape(view, {part.interleaved_heads, 2, pairs, rest}), 1, 2);
}

Shape file_shape(const StateDict& parameters, const NamedPart& part) {
  return io::view_of(parameters, part.part).shape();
}

}  // namespace binade::io::gguf
