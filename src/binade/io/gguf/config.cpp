#include <fmt/format.h>

#include <cmath>

#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/io/families/config_values.h"
#include "binade/io/gguf/keys.h"
#include "binade/io/gguf/model.h"
#include "binade/io/gguf/rope_divisors.h"
#include "binade/io/huggingface.h"

// The configuration of a file, by way of a config.json: what its keys leave out has the defaults of
// llama.cpp, and Hugging Face's reader does the rest.
namespace binade::io::gguf {
namespace {

// The keys of a file's architecture.
class Keys {
 public:
  Keys(const File& file, const Architecture& architecture)
      : file_(file), prefix_(std::string(architecture.name) + ".") {}

  const Key* find(std::string_view name) const {
    return file_.find_key(prefix_ + std::string(name));
  }
  const Key& at(std::string_view name) const { return file_.key(prefix_ + std::string(name)); }

  int64_t integer(std::string_view name, int64_t high = max_size) const {
    return single(at(name)).integer(1, high);
  }
  int64_t integer_or(std::string_view name, int64_t otherwise) const {
    const Key* key = find(name);
    return key == nullptr ? otherwise : single(*key).integer(1, max_size);
  }
  double number_or(std::string_view name, double otherwise) const {
    const Key* key = find(name);
    return key == nullptr ? otherwise : decimal(*key);
  }
  double positive(std::string_view name) const { return positive(at(name)); }
  double positive_or(std::string_view name, double otherwise) const {
    const Key* key = find(name);
    return key == nullptr ? otherwise : positive(*key);
  }

 private:
  static const Key& single(const Key& key) {
    if (key.is_array())
      key.refuse("one number for all layers", "Binade has no models whose layers differ in size");
    return key;
  }
  // An f32 of 1e-5 stands for that decimal, not for the nearest f32.
  static double decimal(const Key& key) {
    const double value = key.number();
    if (key.value_type() != ValueType::f32) return value;
    return std::stod(fmt::format("{}", static_cast<float>(value)));
  }
  static double positive(const Key& key) {
    const double value = decimal(key);
    if (!(value > 0)) key.refuse("more than 0");
    return value;
  }

  const File& file_;
  std::string prefix_;
};

// What the steps below share.
struct Reading {
  const File& file;
  const Family& family;
  Keys keys;
  int64_t layers, width, heads, head_dim;
};

bool has_tensor(const File& file, std::string_view name) {
  return file.find(std::string(name)) != nullptr;
}

int64_t head_dim_of(const Keys& keys, int64_t width, int64_t heads) {
  const int64_t size = keys.integer_or("attention.key_length", width / heads);
  const int64_t values = keys.integer_or("attention.value_length", size);
  if (values != size) keys.at("attention.value_length").refuse(std::to_string(size));
  if (keys.find("attention.key_length") == nullptr && width % heads != 0)
    keys.at("attention.head_count").refuse(fmt::format("a divisor of {}", width));
  return size;
}

void write_sizes(json::Writer& out, const Reading& in) {
  const ConfigKeys& names = in.family.keys;
  out.key(names.layers).value(in.layers).key(names.width).value(in.width);
  out.key(names.heads).value(in.heads);
  out.key(names.hidden).value(in.keys.integer("feed_forward_length"));
  out.key(names.context).value(in.keys.integer("context_length", max_context));
  const int64_t kv_heads = in.keys.integer_or("attention.head_count_kv", in.heads);
  if (!names.kv_heads.empty() && in.heads % kv_heads == 0) {
    out.key(names.kv_heads).value(kv_heads);
  } else if (kv_heads != in.heads) {
    in.keys.at("attention.head_count_kv")
        .refuse(names.kv_heads.empty() ? std::to_string(in.heads)
                                       : fmt::format("a divisor of {}", in.heads));
  }
  if (!names.head_dim.empty()) {
    out.key(names.head_dim).value(in.head_dim);
  } else if (in.head_dim * in.heads != in.width) {
    in.keys.at("attention.key_length")
        .refuse(fmt::format("{}, the width by the heads", in.width / in.heads));
  }
}

void write_vocabulary(json::Writer& out, const Reading& in) {
  const TensorInfo* embedding = in.file.find(std::string(embedding_weight));
  if (embedding == nullptr || embedding->shape.size() != 2 || embedding->shape[0] < 1)
    fail(reader_name, {.argument = in.file.path(),
                       .expected = "a matrix token_embd.weight",
                       .found = embedding == nullptr ? "none" : describe(*embedding)});
  out.key("vocab_size").value(embedding->shape[0]);
  out.key("tie_word_embeddings").value(!has_tensor(in.file, output_weight));
  const auto id = [&](const char* name) -> std::optional<int64_t> {
    const Key* key = in.file.find_key(name);
    if (key == nullptr) return {};
    const int64_t value = key->integer(0, UINT32_MAX);
    return value < embedding->shape[0] ? std::optional(value) : std::nullopt;
  };
  if (const auto bos = id("tokenizer.ggml.bos_token_id")) out.key("bos_token_id").value(*bos);
  const auto eos = id("tokenizer.ggml.eos_token_id"), eot = id("tokenizer.ggml.eot_token_id");
  out.key("eos_token_id").begin_array();
  if (eos) out.value(*eos);
  if (eot && eot != eos) out.value(*eot);
  out.end_array();
}

// Fails unless the scaling is one that has keys and that Binade has.
void write_scaling(json::Writer& out, const Reading& in) {
  for (const char* name : {"rope_factors_long.weight", "rope_factors_short.weight"}) {
    if (has_tensor(in.file, name))
      fail(reader_name, {.argument = fmt::format("{} ({})", in.file.path(), name),
                         .expected = "no rope scaling, linear or llama3",
                         .found = "longrope, which Binade does not have"});
  }
  if (in.keys.number_or("rope.scaling.attn_factor", 1) != 1)
    in.keys.at("rope.scaling.attn_factor").refuse("1: Binade does not scale attention this way");
  const Key* type = in.keys.find("rope.scaling.type");
  const std::string_view name = type == nullptr ? "none" : type->text();
  if (name != "none" && name != "linear")
    type->refuse("none or linear", "Binade has no other scaling of GGUF's");
  const int64_t rotated = in.keys.integer_or("rope.dimension_count", in.head_dim);
  const double theta = in.keys.positive_or("rope.freq_base", 10000);
  if (const TensorInfo* divisors = in.file.find(std::string(rope_divisors))) {
    const auto found =
        llama3_scaling(in.file.load(*divisors), rotated, theta,
                       in.keys.integer_or("rope.scaling.original_context_length", 8192));
    if (!found || name == "linear")
      fail(reader_name, {.argument = fmt::format("{} ({})", in.file.path(), rope_divisors),
                         .expected = "divisors of Llama 3's rope scaling with factors 1 and 4",
                         .found = "others, whose scaling GGUF has no keys for"});
    out.key("rope_scaling").begin_object().key("rope_type").value("llama3");
    out.key("factor").value(found->factor).key("low_freq_factor").value(found->low);
    out.key("high_freq_factor").value(found->high).key("original_max_position_embeddings");
    out.value(found->original_context).end_object();
  } else if (name == "linear") {
    out.key("rope_scaling").begin_object().key("rope_type").value("linear").key("factor");
    out.value(in.keys.positive("rope.scaling.factor")).end_object();
  }
}

void write_rope(json::Writer& out, const Reading& in) {
  const ConfigKeys& names = in.family.keys;
  if (names.theta.empty()) return;
  out.key(names.theta).value(in.keys.positive_or("rope.freq_base", 10000));
  if (!names.local_theta.empty())
    out.key(names.local_theta).value(in.keys.positive_or("rope.freq_base_swa", 10000));
  const int64_t rotated = in.keys.integer_or("rope.dimension_count", in.head_dim);
  if (!names.rotary_fraction.empty()) {
    out.key(names.rotary_fraction)
        .value(static_cast<double>(rotated) / static_cast<double>(in.head_dim));
  } else if (rotated != in.head_dim) {
    in.keys.at("rope.dimension_count").refuse(fmt::format("{}, the size of a head", in.head_dim));
  }
  write_scaling(out, in);
}

// llama.cpp knows which layers are sliding by the architecture, and reads no window for some.
void write_windows(json::Writer& out, const Reading& in) {
  if (in.family.windows == Windows::none) return;
  const Key* key = in.keys.find("attention.sliding_window");
  const int64_t window = key == nullptr ? 0 : key->integer(0, max_size);
  const bool reads_window = in.family.windows != Windows::late_layers;
  out.key("sliding_window");
  if (window == 0 || !reads_window) {
    out.value(nullptr);
  } else {
    out.value(window);
  }
  if (in.family.windows == Windows::five_of_six)
    out.key("sliding_window_pattern")
        .value(in.keys.integer_or("attention.sliding_window_pattern", 6));
}

void write_scores(json::Writer& out, const Reading& in) {
  const ConfigKeys& names = in.family.keys;
  if (!names.query_scalar.empty()) {
    // The largest models of both generations scale by another size than that of a head.
    const int64_t other = in.family.type == "gemma2" ? 46 : 62;
    out.key(names.query_scalar).value(in.layers == other ? in.width / in.heads : in.head_dim);
  }
  if (!names.attention_softcap.empty())
    out.key(names.attention_softcap).value(in.keys.positive_or("attn_logit_softcapping", 50));
  if (names.logit_softcap.empty()) return;
  const Key* cap = in.keys.find("final_logit_softcapping");
  out.key(names.logit_softcap);
  if (cap == nullptr && in.family.type == "gemma3_text") {
    out.value(nullptr);
  } else {
    out.value(in.keys.positive_or("final_logit_softcapping", 30));
  }
}

void write_flags(json::Writer& out, const Reading& in) {
  const ConfigKeys& names = in.family.keys;
  if (!names.parallel.empty())
    out.key(names.parallel).value(in.keys.at("use_parallel_residual").flag());
  if (!names.attention_bias.empty() && !in.family.facts.bias)
    out.key(names.attention_bias).value(has_tensor(in.file, "blk.0.attn_q.bias"));
  if (!names.mlp_bias.empty())
    out.key(names.mlp_bias).value(has_tensor(in.file, "blk.0.ffn_up.bias"));
}

std::string config_text(const File& file) {
  const Architecture& architecture = architecture_of(file);
  const Family& family = *find_family(architecture.family);
  const Keys keys(file, architecture);
  const int64_t width = keys.integer("embedding_length"),
                heads = keys.integer("attention.head_count");
  const Reading in{.file = file,
                   .family = family,
                   .keys = keys,
                   .layers = keys.integer("block_count", max_layers),
                   .width = width,
                   .heads = heads,
                   .head_dim = head_dim_of(keys, width, heads)};
  json::Writer out;
  out.begin_object().key("model_type").value(family.type);
  write_sizes(out, in);
  write_vocabulary(out, in);
  write_rope(out, in);
  write_windows(out, in);
  write_scores(out, in);
  write_flags(out, in);
  out.key(family.keys.eps).value(keys.positive(architecture.norm_key));
  return out.end_object().text();
}

}  // namespace

const Architecture& architecture_of(const File& file) {
  if (const Key* type = file.find_key("general.type"); type != nullptr && type->text() != "model")
    type->refuse("model");
  if (const Key* count = file.find_key("split.count"); count != nullptr)
    if (count->integer(0, 65535) > 1)
      count->refuse("a model in one file", "join its parts first: llama-gguf-split --merge");
  const Key& name = file.key("general.architecture");
  if (const Architecture* found = find_architecture(name.text())) return *found;
  std::string known;
  for (const Architecture& one : architectures())
    known += (known.empty() ? "" : ", ") + std::string(one.name);
  name.refuse("one of " + known);
}

nn::LanguageModelConfig read_config(const File& file) {
  return parse_config(config_text(file), file.path());
}

}  // namespace binade::io::gguf
