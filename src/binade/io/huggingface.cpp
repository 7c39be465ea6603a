#include "binade/io/huggingface.h"

#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <set>

#include "binade/autograd/grad_mode.h"
#include "binade/base/json.h"
#include "binade/io/huggingface_config.h"
#include "binade/nn/init.h"
#include "binade/ops/copy.h"
#include "binade/ops/shape.h"

namespace binade::io {
namespace {

constexpr const char* caller = "huggingface";

// A tensor of a Hugging Face file as a part of one of Binade's parameters: rows
// [begin, begin + rows), or all of them if rows is 0; stored as [in, out] if transposed.
struct Part {
  std::string file_name;  // the tensor's name in the file
  std::string parameter;
  int64_t begin = 0;
  int64_t rows = 0;
  bool transposed = false;
};

std::vector<Part> gpt2_parts(const nn::LanguageModelConfig& config) {
  std::vector<Part> parts = {{"transformer.wte.weight", "embedding.weight"},
                             {"transformer.wpe.weight", "positions.weight"}};
  for (int64_t i = 0; i < config.layers; ++i) {
    const std::string layer = fmt::format("transformer.h.{}.", i),
                      block = fmt::format("blocks.{}.", i);
    const auto add = [&](const std::string& name, const std::string& parameter, bool transposed) {
      parts.push_back({layer + name + ".weight", block + parameter + ".weight", 0, 0, transposed});
      parts.push_back({layer + name + ".bias", block + parameter + ".bias"});
    };
    add("ln_1", "norm1", false);
    add("attn.c_attn", "attention.qkv", true);
    add("attn.c_proj", "attention.out", true);
    add("ln_2", "norm2", false);
    add("mlp.c_fc", "mlp.up", true);
    add("mlp.c_proj", "mlp.down", true);
  }
  parts.push_back({"transformer.ln_f.weight", "norm.weight"});
  parts.push_back({"transformer.ln_f.bias", "norm.bias"});
  return parts;
}

std::vector<Part> llama_parts(const nn::LanguageModelConfig& config) {
  const int64_t head_dim = config.width / config.heads;
  const int64_t q = config.heads * head_dim;
  const int64_t kv = (config.kv_heads == 0 ? config.heads : config.kv_heads) * head_dim;
  std::vector<Part> parts = {{"model.embed_tokens.weight", "embedding.weight"}};
  for (int64_t i = 0; i < config.layers; ++i) {
    const std::string layer = fmt::format("model.layers.{}.", i),
                      block = fmt::format("blocks.{}.", i);
    const auto add = [&](const std::string& name, const std::string& parameter, int64_t begin = 0,
                         int64_t rows = 0) {
      parts.push_back({layer + name + ".weight", block + parameter + ".weight", begin, rows});
    };
    add("input_layernorm", "norm1");
    add("self_attn.q_proj", "attention.qkv", 0, q);
    add("self_attn.k_proj", "attention.qkv", q, kv);
    add("self_attn.v_proj", "attention.qkv", q + kv, kv);
    add("self_attn.o_proj", "attention.out");
    add("post_attention_layernorm", "norm2");
    add("mlp.gate_proj", "mlp.up", 0, config.hidden);
    add("mlp.up_proj", "mlp.up", config.hidden, config.hidden);
    add("mlp.down_proj", "mlp.down");
  }
  parts.push_back({"model.norm.weight", "norm.weight"});
  return parts;
}

std::vector<Part> parts_of(const nn::LanguageModelConfig& config) {
  std::vector<Part> parts =
      family_of(config) == Family::gpt2 ? gpt2_parts(config) : llama_parts(config);
  if (!config.tied_head) parts.push_back({"lm_head.weight", "head"});
  return parts;
}

StateDict parameters_of(const nn::LanguageModel& model) {
  StateDict parameters;
  for (const auto& [name, parameter] : model.named_parameters()) {
    parameters[name] = parameter.detach();
  }
  return parameters;
}

// A writable view of the rows of a parameter that a part stands for, in Hugging Face's layout.
Tensor view_of(const StateDict& parameters, const Part& part) {
  const NoGrad no_grad;
  Tensor view = parameters.at(part.parameter);
  if (part.rows > 0) view = slice(view, 0, part.begin, part.begin + part.rows);
  return part.transposed ? transpose(view, 0, 1) : view;
}

// Buffers that old files carry although the configuration determines them.
bool is_buffer(std::string_view name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
         name.ends_with(".rotary_emb.inv_freq");
}

// Weights to load: their descriptions, and a function that loads one.
struct Incoming {
  struct Described {
    std::string words;
    std::vector<int64_t> shape;
    bool usable;  // its type is one that weights may have
  };
  std::map<std::string, Described> tensors;
  std::function<Tensor(const std::string&)> load;
};

bool is_weight_type(std::optional<DType> dtype) { return dtype && is_compute(*dtype); }

Incoming incoming(const StateDict& weights) {
  Incoming result;
  for (const auto& [name, tensor] : weights) {
    if (!tensor.defined())
      fail(caller, {.argument = name, .expected = "a tensor", .found = "none"});
    result.tensors[name] = {describe(tensor),
                            {tensor.shape().begin(), tensor.shape().end()},
                            is_weight_type(tensor.dtype())};
  }
  result.load = [&weights](const std::string& name) { return weights.at(name); };
  return result;
}

Incoming incoming(const TensorStore& store) {
  Incoming result;
  for (const auto& [name, entry] : store.entries()) {
    result.tensors[name] = {describe(*entry), entry->shape, is_weight_type(entry->dtype)};
  }
  result.load = [&store](const std::string& name) { return store.load(name); };
  return result;
}

// Differences between a file and a model, as the lines of one message.
class Differences {
 public:
  void add(const std::string& line) {
    if (++count_ <= shown) lines_ += "\n  " + line;
  }
  void fail_if_any() const {
    if (count_ == 0) return;
    const std::string rest = count_ > shown ? fmt::format("\n  and {} more", count_ - shown) : "";
    fail(caller, {.argument = "weights",
                  .expected = "those of the configuration",
                  .found = "these differences:" + lines_ + rest});
  }

 private:
  static constexpr int64_t shown = 1000;  // a malicious file could name millions
  int64_t count_ = 0;
  std::string lines_;
};

// Whether a table of learned positions may be longer than the model's.
enum class Positions : uint8_t { exact, at_least };

bool fits(const Part& part, const Shape& expected, const std::vector<int64_t>& loaded,
          Positions positions) {
  const bool longer = positions == Positions::at_least && part.parameter == "positions.weight" &&
                      loaded.size() == 2 && loaded[0] > expected[0] && loaded[1] == expected[1];
  return longer || std::equal(expected.begin(), expected.end(), loaded.begin(), loaded.end());
}

// The name that each part has among the given tensors, by Part::file_name. Fails naming every
// missing, surplus and misshapen tensor.
std::map<std::string, std::string> match(const StateDict& parameters,
                                         const nn::LanguageModelConfig& config,
                                         const Incoming& given,
                                         Positions positions = Positions::exact) {
  constexpr std::string_view prefix = "transformer.";
  const bool bare = !given.tensors.contains("transformer.wte.weight");
  std::map<std::string, std::string> names;
  std::set<std::string> used;
  if (config.tied_head) used.insert("lm_head.weight");
  Differences differences;
  for (const Part& part : parts_of(config)) {
    const bool cut = bare && part.file_name.starts_with(prefix);
    const std::string name = cut ? part.file_name.substr(prefix.size()) : part.file_name;
    names[part.file_name] = name;
    used.insert(name);
    const Shape shape = view_of(parameters, part).shape();
    const auto found = given.tensors.find(name);
    if (found == given.tensors.end()) {
      differences.add("missing: " + name + " " + to_string(shape));
      continue;
    }
    const auto& [words, sizes, usable] = found->second;
    if (!usable || !fits(part, shape, sizes, positions)) {
      differences.add(name + ": expected " + to_string(shape) + " of a floating type, found " +
                      words);
    }
  }
  for (const auto& [name, described] : given.tensors) {
    if (used.contains(name) || is_buffer(name)) continue;
    differences.add("not in this model: " + json::in_quotes(name));
  }
  differences.fail_if_any();
  return names;
}

// Old files store a tied head a second time. A head that differs means that it is not tied.
void check_tied_copy(const Incoming& given, const std::string& embedding_name) {
  if (!given.tensors.contains("lm_head.weight")) return;
  const NoGrad no_grad;
  const Tensor head = contiguous(to(given.load("lm_head.weight"), Device::cpu()));
  const Tensor embedding = contiguous(to(given.load(embedding_name), Device::cpu()));
  const bool alike = head.shape() == embedding.shape() && head.dtype() == embedding.dtype();
  const auto bytes = static_cast<size_t>(head.bytes());
  if (alike && std::memcmp(head.raw_data(), embedding.raw_data(), bytes) == 0) return;
  fail(caller, {.argument = "lm_head.weight",
                .expected = "the same values as " + embedding_name + ", the head being tied to it",
                .found = "others",
                .hint = "set tie_word_embeddings to false in config.json"});
}

void copy_in(nn::LanguageModel& model, const Incoming& given,
             Positions positions = Positions::exact) {
  const StateDict parameters = parameters_of(model);
  const auto names = match(parameters, model.config(), given, positions);
  const std::vector<Part> parts = parts_of(model.config());
  if (model.config().tied_head) check_tied_copy(given, names.at(parts[0].file_name));
  const NoGrad no_grad;
  for (const Part& part : parts) {
    const Tensor target = view_of(parameters, part), source = given.load(names.at(part.file_name));
    copy_(target, positions == Positions::exact ? source : slice(source, 0, 0, target.size(0)));
  }
}

// model.safetensors, or the shards its index names.
TensorStore open_weights(const std::filesystem::path& directory) {
  std::error_code error;
  const bool whole = std::filesystem::exists(directory / "model.safetensors", error);
  return TensorStore(directory / (whole ? "model.safetensors" : "model.safetensors.index.json"));
}

// Views of a model's weights under Hugging Face's names.
StateDict views_of(const nn::LanguageModel& model) {
  const StateDict parameters = parameters_of(model);
  StateDict views;
  for (const Part& part : parts_of(model.config()))
    views[part.file_name] = view_of(parameters, part);
  return views;
}

}  // namespace

StateDict to_huggingface(const nn::LanguageModel& model) {
  StateDict weights = views_of(model);
  for (auto& [name, tensor] : weights) tensor = clone(tensor);
  return weights;
}

void load_huggingface(nn::LanguageModel& model, const StateDict& weights) {
  copy_in(model, incoming(weights));
}

void save_pretrained(const nn::LanguageModel& model, const std::filesystem::path& directory) {
  const StateDict weights = views_of(model);
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) {
    fail(caller, {.argument = directory.string(),
                  .expected = "a folder to write to",
                  .found = error.message()});
  }
  save_safetensors(directory / "model.safetensors", weights);
  write_config(directory / "config.json", model.config(), weights.begin()->second.dtype());
}

std::unique_ptr<nn::LanguageModel> load_pretrained(const std::filesystem::path& directory,
                                                   nn::Placement placement) {
  const nn::LanguageModelConfig config = read_config(directory / "config.json");
  const TensorStore store = open_weights(directory);
  const Incoming given = incoming(store);
  // Compares file and configuration on the meta device, before any memory is allocated.
  match(parameters_of(nn::LanguageModel(config, {Device::meta(), placement.dtype})), config, given);
  const nn::init::SkipInit unset;
  auto model = std::make_unique<nn::LanguageModel>(config, placement);
  copy_in(*model, given);
  return model;
}

void load_weights(nn::LanguageModel& model, const std::filesystem::path& directory) {
  const TensorStore store = open_weights(directory);
  copy_in(model, incoming(store), Positions::at_least);
}

DType stored_type(const std::filesystem::path& directory) {
  const TensorStore store = open_weights(directory);
  std::optional<DType> type;
  for (const auto& [name, entry] : store.entries()) {
    if (is_weight_type(entry->dtype) && !is_buffer(name))
      type = type ? promote(*type, *entry->dtype) : *entry->dtype;
  }
  return type.value_or(DType::f32);
}

}  // namespace binade::io
