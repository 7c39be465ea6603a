#include "binade/io/huggingface_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "binade/base/json.h"
#include "binade/io/huggingface.h"

namespace binade::io {
namespace {

constexpr const char* caller = "config.json";
constexpr int64_t max_bytes = 1 << 20;
// Bounds far above any model of these families: a malicious file cannot ask for absurd amounts of
// memory.
constexpr int64_t max_layers = 4096;
constexpr int64_t max_size = int64_t{1} << 31;
constexpr int64_t max_context = int64_t{1} << 20;

// A member that may be absent or null.
const json::Value* given(const json::Value& root, std::string_view name) {
  const json::Value* value = root.find(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

int64_t size_at(const json::Value& root, std::string_view name, int64_t limit = max_size) {
  return root.at(name).integer(1, limit);
}

int64_t size_or(const json::Value& root, std::string_view name, int64_t otherwise) {
  const json::Value* value = given(root, name);
  return value == nullptr ? otherwise : value->integer(1, max_size);
}

// Beyond these, f32 arithmetic gives nothing but zeros or infinities.
constexpr double max_epsilon = 1, max_rope_theta = 1e12;

double positive_or(const json::Value& root, std::string_view name, double otherwise, double most) {
  const json::Value* value = given(root, name);
  if (value == nullptr) return otherwise;
  if (value->number() <= 0 || value->number() > most)
    value->refuse(fmt::format("more than 0 and at most {:g}", most), value->describe());
  return value->number();
}

bool flag_or(const json::Value& root, std::string_view name, bool otherwise) {
  const json::Value* value = given(root, name);
  return value == nullptr ? otherwise : value->boolean();
}

void require_flag(const json::Value& root, std::string_view name, bool needed) {
  if (flag_or(root, name, needed) == needed) return;
  root.at(name).refuse(needed ? "true" : "false", needed ? "false" : "true",
                       "Binade has no such variant");
}

void require_text(const json::Value& value, std::initializer_list<std::string_view> accepted) {
  const std::string& text = value.string();
  if (std::find(accepted.begin(), accepted.end(), text) != accepted.end()) return;
  value.refuse(fmt::format("{}", fmt::join(accepted, " or ")), json::in_quotes(text),
               "Binade has no such variant");
}

void check_heads(const json::Value& root, std::string_view name, int64_t whole, int64_t heads) {
  if (whole % heads != 0)
    root.at(name).refuse(fmt::format("a divisor of {}", whole), std::to_string(heads));
}

nn::LanguageModelConfig read_gpt2(const json::Value& root) {
  nn::LanguageModelConfig config;
  config.layers = size_at(root, "n_layer", max_layers);
  config.width = size_at(root, "n_embd");
  config.heads = size_at(root, "n_head");
  config.hidden = size_or(root, "n_inner", 4 * config.width);
  config.vocab = size_at(root, "vocab_size");
  config.context = size_at(root, "n_positions", max_context);
  config.eps = positive_or(root, "layer_norm_epsilon", 1e-5, max_epsilon);
  config.tied_head = flag_or(root, "tie_word_embeddings", true);
  check_heads(root, "n_head", config.width, config.heads);
  if (const json::Value* activation = given(root, "activation_function")) {
    require_text(*activation, {"gelu_new", "gelu_pytorch_tanh"});
  }
  require_flag(root, "scale_attn_weights", true);
  require_flag(root, "scale_attn_by_inverse_layer_idx", false);
  require_flag(root, "add_cross_attention", false);
  return config;
}

// rope_theta is a key of its own in older files and part of rope_parameters in newer ones.
double read_rope(const json::Value& root) {
  double theta = positive_or(root, "rope_theta", 10000, max_rope_theta);
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    const json::Value* rope = given(root, name);
    if (rope == nullptr) continue;
    for (const char* type : {"rope_type", "type"}) {
      if (const json::Value* kind = given(*rope, type)) require_text(*kind, {"default"});
    }
    theta = positive_or(*rope, "rope_theta", theta, max_rope_theta);
  }
  return theta;
}

nn::LanguageModelConfig read_llama(const json::Value& root) {
  nn::LanguageModelConfig config{
      .norm = nn::NormKind::rms, .bias = false, .gated = true, .learned_positions = false};
  config.layers = size_at(root, "num_hidden_layers", max_layers);
  config.width = size_at(root, "hidden_size");
  config.heads = size_at(root, "num_attention_heads");
  config.kv_heads = size_or(root, "num_key_value_heads", config.heads);
  config.hidden = size_at(root, "intermediate_size");
  config.vocab = size_at(root, "vocab_size");
  config.context = size_at(root, "max_position_embeddings", max_context);
  config.eps = positive_or(root, "rms_norm_eps", 1e-6, max_epsilon);
  config.rope_theta = read_rope(root);
  config.tied_head = flag_or(root, "tie_word_embeddings", false);
  check_heads(root, "num_attention_heads", config.width, config.heads);
  if (given(root, "num_key_value_heads") != nullptr)
    check_heads(root, "num_key_value_heads", config.heads, config.kv_heads);
  if (const json::Value* head_dim = given(root, "head_dim");
      head_dim != nullptr && head_dim->integer(1, max_size) != config.width / config.heads) {
    head_dim->refuse(
        fmt::format("hidden_size / num_attention_heads = {}", config.width / config.heads),
        head_dim->describe());
  }
  if (const json::Value* activation = given(root, "hidden_act"))
    require_text(*activation, {"silu"});
  require_flag(root, "attention_bias", false);
  require_flag(root, "mlp_bias", false);
  return config;
}

void write_gpt2(json::Writer& out, const nn::LanguageModelConfig& config) {
  out.key("model_type")
      .value("gpt2")
      .key("architectures")
      .begin_array()
      .value("GPT2LMHeadModel")
      .end_array();
  out.key("n_layer")
      .value(config.layers)
      .key("n_embd")
      .value(config.width)
      .key("n_head")
      .value(config.heads);
  out.key("n_inner");
  if (config.hidden == 4 * config.width) {
    out.value(nullptr);
  } else {
    out.value(config.hidden);
  }
  out.key("n_positions").value(config.context);
  out.key("activation_function").value("gelu_new").key("layer_norm_epsilon").value(config.eps);
  out.key("embd_pdrop")
      .value(config.dropout)
      .key("resid_pdrop")
      .value(config.dropout)
      .key("attn_pdrop")
      .value(0.0);
}

void write_llama(json::Writer& out, const nn::LanguageModelConfig& config) {
  out.key("model_type")
      .value("llama")
      .key("architectures")
      .begin_array()
      .value("LlamaForCausalLM")
      .end_array();
  out.key("num_hidden_layers").value(config.layers).key("hidden_size").value(config.width);
  out.key("num_attention_heads").value(config.heads);
  out.key("num_key_value_heads").value(config.kv_heads == 0 ? config.heads : config.kv_heads);
  out.key("head_dim")
      .value(config.width / config.heads)
      .key("intermediate_size")
      .value(config.hidden);
  out.key("max_position_embeddings").value(config.context);
  out.key("hidden_act").value("silu").key("rms_norm_eps").value(config.eps);
  out.key("attention_bias").value(false).key("mlp_bias").value(false);
  out.key("rope_theta").value(config.rope_theta);
  out.key("rope_parameters")
      .begin_object()
      .key("rope_theta")
      .value(config.rope_theta)
      .key("rope_type")
      .value("default")
      .end_object();
}

const char* torch_name(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return "float64";
    case DType::f16:
      return "float16";
    case DType::bf16:
      return "bfloat16";
    default:
      return "float32";
  }
}

}  // namespace

Family family_of(const nn::LanguageModelConfig& config) {
  const bool layer = config.norm == nn::NormKind::layer;
  const bool kv_as_heads = config.kv_heads == 0 || config.kv_heads == config.heads;
  if (layer && config.bias && !config.gated && config.learned_positions && kv_as_heads)
    return Family::gpt2;
  if (!layer && !config.bias && config.gated && !config.learned_positions) return Family::llama;
  fail("huggingface",
       {.argument = "model",
        .expected = "a GPT-2 (LayerNorm, biases, GELU, learned positions) or a Llama (RMSNorm, no "
                    "biases, SwiGLU, rotary positions)",
        .found = fmt::format("{}, {}, {}, {} positions", layer ? "LayerNorm" : "RMSNorm",
                             config.bias ? "biases" : "no biases", config.gated ? "SwiGLU" : "GELU",
                             config.learned_positions ? "learned" : "rotary")});
}

nn::LanguageModelConfig read_config(const std::filesystem::path& path) {
  const std::string text = read_text(path, caller, max_bytes);
  const json::Document document = json::parse(text, {.reader = caller, .file = path.string()});
  const json::Value& type = document.root().at("model_type");
  require_text(type, {"gpt2", "llama"});
  return type.string() == "gpt2" ? read_gpt2(document.root()) : read_llama(document.root());
}

void write_config(const std::filesystem::path& path, const nn::LanguageModelConfig& config,
                  DType dtype) {
  json::Writer out(2);
  out.begin_object();
  if (family_of(config) == Family::gpt2) {
    write_gpt2(out, config);
  } else {
    write_llama(out, config);
  }
  out.key("vocab_size").value(config.vocab).key("tie_word_embeddings").value(config.tied_head);
  // The tokenizer defines special tokens. Null keeps readers from assuming GPT-2's or Llama's.
  out.key("bos_token_id").value(nullptr).key("eos_token_id").value(nullptr);
  out.key("torch_dtype").value(torch_name(dtype)).end_object();
  AtomicFile file(path, caller);
  file.append(out.text());
  file.append(std::string_view("\n"));
  file.commit();
}

}  // namespace binade::io
