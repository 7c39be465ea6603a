#include "binade/io/huggingface_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "binade/base/json.h"
#include "binade/io/families/config_values.h"
#include "binade/io/families/rope_config.h"
#include "binade/io/gguf/model.h"
#include "binade/io/huggingface.h"

namespace binade::io {
namespace {

using nn::LanguageModelConfig;

constexpr const char* config_reader = "config.json";
constexpr int64_t max_bytes = 1 << 20;
constexpr std::string_view sliding_name = "sliding_attention", full_name = "full_attention";

void check_divides(const json::Value& root, std::string_view name, int64_t whole, int64_t heads) {
  if (whole % heads != 0)
    root.at(name).refuse(fmt::format("a divisor of {}", whole), std::to_string(heads));
}

void read_sizes(const json::Value& root, const Family& family, LanguageModelConfig& config) {
  const ConfigKeys& keys = family.keys;
  config.layers = root.at(keys.layers).integer(1, max_layers);
  config.width = root.at(keys.width).integer(1, max_size);
  config.heads = root.at(keys.heads).integer(1, max_size);
  config.hidden = given(root, keys.hidden) == nullptr && family.hidden_ratio != 0
                      ? family.hidden_ratio * config.width
                      : root.at(keys.hidden).integer(1, max_size);
  config.vocab = root.at("vocab_size").integer(1, max_size);
  config.context = root.at(keys.context).integer(1, max_context);
  const int64_t head_dim = size_or(root, keys.head_dim, family.head_dim);
  if (head_dim == 0) check_divides(root, keys.heads, config.width, config.heads);
  if (head_dim != 0 && head_dim * config.heads != config.width) config.head_dim = head_dim;
  if (!keys.kv_heads.empty()) {
    config.kv_heads = size_or(root, keys.kv_heads, config.heads);
    if (given(root, keys.kv_heads) != nullptr)
      check_divides(root, keys.kv_heads, config.heads, config.kv_heads);
  }
}

void read_biases(const json::Value& root, const Family& family, LanguageModelConfig& config) {
  config.bias = flag_or(root, family.keys.mlp_bias, config.bias);
  if (family.keys.attention_bias.empty()) return;
  const bool attention = flag_or(root, family.keys.attention_bias, family.facts.bias);
  if (attention != config.bias) config.qkv_bias = config.out_bias = attention;
}

nn::LayerAttention parse_layer(const json::Value& value) {
  const std::string& name = value.string();
  if (name != sliding_name && name != full_name)
    value.refuse(fmt::format("{} or {}", full_name, sliding_name), json::in_quotes(name),
                 "Binade has no such variant");
  return name == sliding_name ? nn::LayerAttention::sliding : nn::LayerAttention::full;
}

// Whether layer i is sliding in a file without a list of layers.
bool slides(const json::Value& root, const Family& family, int64_t i) {
  switch (family.windows) {
    case Windows::none:
      return false;
    case Windows::all_layers:
      return true;
    case Windows::even_layers:
      return i % 2 == 0;
    case Windows::five_of_six:
      return (i + 1) % size_or(root, "sliding_window_pattern", 6) != 0;
    case Windows::late_layers:
      constexpr int64_t default_first = 28;  // max_window_layers in transformers
      const json::Value* first = given(root, "max_window_layers");
      return flag_or(root, "use_sliding_window", false) &&
             i >= (first == nullptr ? default_first : first->integer(0, max_size));
  }
  return false;
}

void read_windows(const json::Value& root, const Family& family, LanguageModelConfig& config) {
  if (family.windows == Windows::none) return;
  const json::Value* window = root.find("sliding_window");
  config.window = window == nullptr   ? family.window
                  : window->is_null() ? 0
                                      : window->integer(1, max_size);
  std::vector<nn::LayerAttention> layers;
  const json::Value* list =
      family.windows == Windows::all_layers ? nullptr : given(root, "layer_types");
  if (list != nullptr) {
    for (const json::Value& layer : list->array()) layers.push_back(parse_layer(layer));
    if (std::cmp_not_equal(layers.size(), config.layers))
      list->refuse(fmt::format("{} layers", config.layers), std::to_string(layers.size()));
  } else {
    for (int64_t i = 0; i < config.layers; ++i)
      layers.push_back(slides(root, family, i) ? nn::LayerAttention::sliding
                                               : nn::LayerAttention::full);
  }
  const auto sliding = std::count(layers.begin(), layers.end(), nn::LayerAttention::sliding);
  if (sliding == 0) config.window = 0;
  if (config.window != 0 && sliding != config.layers) config.layer_types = std::move(layers);
}

double cap_or(const json::Value& root, std::string_view name, double otherwise) {
  if (name.empty() || root.find(name) == nullptr) return otherwise;
  return positive_or(root, name, 0);  // null: none
}

void read_scores(const json::Value& root, const Family& family, LanguageModelConfig& config) {
  const ConfigKeys& keys = family.keys;
  if (const json::Value* scalar = given(root, keys.query_scalar)) {
    if (scalar->number() <= 0) scalar->refuse("more than 0", scalar->describe());
    config.attention_scale = 1 / std::sqrt(scalar->number());
  }
  config.attention_softcap = cap_or(root, keys.attention_softcap, config.attention_softcap);
  config.logit_softcap = cap_or(root, keys.logit_softcap, config.logit_softcap);
  if (family.scales_embedding)
    config.embedding_scale = std::sqrt(static_cast<double>(config.width));
}

void read_special_tokens(const json::Value& root, LanguageModelConfig& config) {
  const auto id = [](const json::Value& value) { return value.integer(-1, max_size); };
  if (const json::Value* bos = given(root, "bos_token_id"); bos != nullptr && id(*bos) >= 0)
    config.bos = id(*bos);
  const json::Value* eos = given(root, "eos_token_id");
  if (eos == nullptr) return;
  if (eos->is_array()) {
    for (const json::Value& value : eos->array()) config.eos.push_back(id(value));
  } else if (id(*eos) >= 0) {
    config.eos.push_back(id(*eos));
  }
}

LanguageModelConfig read_family(const json::Value& root, const Family& family) {
  LanguageModelConfig config = family.facts;
  config.family = family.type;
  read_sizes(root, family, config);
  read_biases(root, family, config);
  config.eps = positive_or(root, family.keys.eps, family.eps, max_epsilon);
  config.tied_head = flag_or(root, "tie_word_embeddings", family.tied);
  if (!flag_or(root, family.keys.parallel, true)) config.block = nn::BlockKind::pre_norm;
  if (!config.learned_positions) read_rope(root, family, config);
  read_windows(root, family, config);
  read_scores(root, family, config);
  read_special_tokens(root, config);
  if (const json::Value* activation = given(root, family.keys.activation)) {
    const auto& accepted = family.activations;
    const std::string& name = activation->string();
    if (std::find(accepted.begin(), accepted.end(), name) == accepted.end())
      activation->refuse(fmt::format("{}", fmt::join(accepted, " or ")), json::in_quotes(name),
                         "Binade has no such variant");
  }
  for (const auto& [name, needed] : family.required) require_flag(root, name, needed);
  return config;
}

bool attention_biases_fit(const Family& family, const LanguageModelConfig& config) {
  const bool qkv = config.qkv_bias.value_or(config.bias),
             out = config.out_bias.value_or(config.bias);
  const LanguageModelConfig& facts = family.facts;
  if (family.keys.mlp_bias.empty() && config.bias != facts.bias) return false;
  if (!family.keys.attention_bias.empty()) return qkv == out;
  return qkv == facts.qkv_bias.value_or(facts.bias) && out == facts.out_bias.value_or(facts.bias);
}

bool positions_fit(const Family& family, const LanguageModelConfig& config) {
  const bool has_window = family.windows != Windows::none,
             has_list = has_window && family.windows != Windows::all_layers;
  return config.learned_positions == family.facts.learned_positions &&
         config.local_rope_theta.has_value() == family.facts.local_rope_theta.has_value() &&
         (family.scales_rope || config.rope_scaling.kind == nn::RopeScalingKind::none) &&
         (!family.keys.rotary_fraction.empty() || config.rotary_dim == 0) &&
         (has_window || config.window == 0) && (has_list || config.layer_types.empty());
}

// Whether a family has all options of a model.
bool fits(const Family& family, const LanguageModelConfig& config) {
  const LanguageModelConfig& facts = family.facts;
  const auto activation = [](const LanguageModelConfig& c) {
    return c.activation.value_or(c.gated ? Activation::silu : Activation::gelu_tanh);
  };
  const bool block = config.block == facts.block ||
                     (!family.keys.parallel.empty() && config.block == nn::BlockKind::pre_norm);
  const bool heads =
      (!family.keys.head_dim.empty() || config.head_width() * config.heads == config.width) &&
      (!family.keys.kv_heads.empty() || config.kv_heads == 0 || config.kv_heads == config.heads);
  const double embedding_scale =
      family.scales_embedding ? std::sqrt(static_cast<double>(config.width)) : 1;
  const bool caps = config.embedding_scale == embedding_scale &&
                    (!family.keys.attention_softcap.empty() || config.attention_softcap == 0) &&
                    (!family.keys.logit_softcap.empty() || config.logit_softcap == 0) &&
                    config.attention_scale.has_value() == facts.attention_scale.has_value();
  return config.norm == facts.norm && config.norm_weight == facts.norm_weight && block &&
         config.gated == facts.gated && activation(config) == activation(facts) &&
         config.qk_norm == facts.qk_norm && heads && caps && positions_fit(family, config) &&
         attention_biases_fit(family, config);
}

void write_windows(json::Writer& out, const Family& family, const LanguageModelConfig& config) {
  if (family.windows == Windows::none) return;
  out.key("sliding_window");
  if (config.window == 0) {
    out.value(nullptr);
  } else {
    out.value(config.window);
  }
  if (family.windows == Windows::all_layers) return;
  if (family.windows == Windows::late_layers) {
    // transformers drops the window without the first, and versions without layer_types need both.
    int64_t first = 0;
    while (first < config.layers && config.window_of(first) == 0) ++first;
    out.key("use_sliding_window").value(config.window != 0);
    out.key("max_window_layers").value(first);
  }
  out.key("layer_types").begin_array();
  for (int64_t i = 0; i < config.layers; ++i)
    out.value(config.window_of(i) != 0 ? sliding_name : full_name);
  out.end_array();
}

void write_scores(json::Writer& out, const ConfigKeys& keys, const LanguageModelConfig& config) {
  const auto cap = [&](std::string_view name, double value) {
    if (name.empty()) return;
    out.key(name);
    if (value == 0) {
      out.value(nullptr);
    } else {
      out.value(value);
    }
  };
  if (!keys.query_scalar.empty()) {
    const double scale = config.attention_scale.value_or(1);
    out.key(keys.query_scalar).value(static_cast<int64_t>(std::llround(1 / (scale * scale))));
  }
  cap(keys.attention_softcap, config.attention_softcap);
  cap(keys.logit_softcap, config.logit_softcap);
}

void write_family(json::Writer& out, const Family& family, const LanguageModelConfig& config) {
  const ConfigKeys& keys = family.keys;
  out.key("model_type").value(family.type).key("architectures").begin_array();
  out.value(family.architecture).end_array();
  out.key(keys.layers).value(config.layers).key(keys.width).value(config.width);
  out.key(keys.heads).value(config.heads);
  if (!keys.kv_heads.empty())
    out.key(keys.kv_heads).value(config.kv_heads == 0 ? config.heads : config.kv_heads);
  if (!keys.head_dim.empty()) out.key(keys.head_dim).value(config.head_width());
  out.key(keys.hidden).value(config.hidden).key(keys.context).value(config.context);
  out.key(keys.activation).value(family.activations[0]).key(keys.eps).value(config.eps);
  if (!keys.parallel.empty()) out.key(keys.parallel).value(config.block == nn::BlockKind::parallel);
  if (!keys.attention_bias.empty())
    out.key(keys.attention_bias).value(config.qkv_bias.value_or(config.bias));
  if (!keys.mlp_bias.empty()) out.key(keys.mlp_bias).value(config.bias);
  if (!config.learned_positions) write_rope(out, family, config);
  write_windows(out, family, config);
  write_scores(out, keys, config);
  if (family.writes_dropout) {
    out.key("embd_pdrop").value(config.dropout).key("resid_pdrop").value(config.dropout);
    out.key("attn_pdrop").value(0.0);
  }
}

void write_all(json::Writer& out, const LanguageModelConfig& config) {
  write_family(out, family_of(config), config);
  out.key("vocab_size").value(config.vocab).key("tie_word_embeddings").value(config.tied_head);
  write_special_tokens(out, config);
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

std::string type_list() {
  std::string list;
  for (const Family& family : families()) {
    if (&family != &families().front()) list += &family == &families().back() ? " or " : ", ";
    list += family.type;
  }
  return list;
}

}  // namespace

void write_special_tokens(json::Writer& out, const LanguageModelConfig& config) {
  out.key("bos_token_id");
  if (config.bos) {
    out.value(*config.bos);
  } else {
    out.value(nullptr);
  }
  out.key("eos_token_id");
  if (config.eos.empty()) {
    out.value(nullptr);
  } else if (config.eos.size() == 1) {
    out.value(config.eos[0]);
  } else {
    out.begin_array();
    for (const int64_t id : config.eos) out.value(id);
    out.end_array();
  }
  out.key("pad_token_id").value(nullptr);
}

const Family& family_of(const LanguageModelConfig& config) {
  for (const Family& family : families()) {
    if ((config.family.empty() || family.type == config.family) && fits(family, config))
      return family;
  }
  fail("huggingface",
       {.argument = "model",
        .expected = config.family.empty()
                        ? "a GPT-2 (LayerNorm, biases, GELU, learned positions), a Llama (RMSNorm, "
                          "no biases, SwiGLU, rotary positions) or another supported family"
                        : "the options of " + config.family,
        .found = fmt::format("{}, {}, {}, {} positions",
                             config.norm == nn::NormKind::layer ? "LayerNorm" : "RMSNorm",
                             config.bias ? "biases" : "no biases", config.gated ? "SwiGLU" : "GELU",
                             config.learned_positions ? "learned" : "rotary")});
}

LanguageModelConfig read_config(const Path& path) {
  if (gguf::is_gguf(path.plain())) return gguf::read_config(gguf::File(path));
  return parse_config(read_text(path, config_reader, max_bytes), path.string());
}

LanguageModelConfig parse_config(std::string_view text, const std::string& name) {
  const json::Document document = json::parse(text, {.reader = config_reader, .file = name});
  const json::Value& type = document.root().at("model_type");
  const Family* family = find_family(type.string());
  if (family == nullptr) {
    const std::string_view difference = difference_of(type.string());
    type.refuse(type_list(), json::in_quotes(type.string()),
                difference.empty() ? "" : fmt::format("{} has {}", type.string(), difference));
  }
  return read_family(document.root(), *family);
}

std::string config_json(const LanguageModelConfig& config) {
  json::Writer out;
  out.begin_object();
  write_all(out, config);
  return out.end_object().text();
}

void write_config(const Path& path, const LanguageModelConfig& config, DType dtype) {
  write_config_and(path, config, dtype, [](json::Writer&) {});
}

void write_config_and(const Path& path, const LanguageModelConfig& config, DType dtype,
                      FunctionRef<void(json::Writer& out)> write) {
  json::Writer out(2);
  out.begin_object();
  write_all(out, config);
  // The second is the name in transformers 4.
  out.key("dtype").value(torch_name(dtype)).key("torch_dtype").value(torch_name(dtype));
  write(out);
  out.end_object();
  AtomicFile file(path, config_reader);
  file.append(out.text());
  file.append(std::string_view("\n"));
  file.commit();
}

}  // namespace binade::io
