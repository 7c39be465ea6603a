#include "binade/io/lora.h"
#include "binade/io/gguf/file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "binade/amp/autocast.h"
#include "binade/autograd/grad_mode.h"
#include "binade/base/json.h"
#include "binade/base/text.h"
#include "binade/io/adapter_parts.h"
#include "binade/io/base_weights.h"
#include "binade/io/huggingface_parts.h"
#include "binade/io/linear_targets.h"
#include "binade/io/safetensors.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/matmul/matmul.h"
#include "binade/ops/shape/shape.h"

namespace binade::io {
namespace {

namespace fs = std::filesystem;

constexpr const char* adapter_reader = "lora";
constexpr const char* config_name = "adapter_config.json";
constexpr const char* weights_name = "adapter_model.safetensors";
constexpr std::string_view peft_prefix = "base_model.model.";  // of PEFT's names
constexpr int64_t max_adapter_config = 1 << 20;

std::string a_name(const LinearTarget& target) {
  return fmt::format("{}{}.lora_A.weight", peft_prefix, target.module);
}
std::string b_name(const LinearTarget& target) {
  return fmt::format("{}{}.lora_B.weight", peft_prefix, target.module);
}

// An adapter of a model with the part of a file that it is.
struct Adapted {
  LinearTarget target;
  nn::LoraAdapter* adapter;

  // b as the file has it: its rows are those of the weight, possibly head by head.
  Tensor file_b() const {
    const Part rows{.file_name = {}, .parameter = "b", .heads = target.part.heads};
    return view_of({{"b", adapter->b.detach()}}, rows);
  }
};

std::vector<Adapted> adapters_of(nn::LanguageModel& model) {
  const auto linears = linears_of(model);
  std::vector<Adapted> result;
  for (LinearTarget& target : linear_targets(model)) {
    nn::LoraAdapter* adapter = linears.at(target.path)->find_adapter(target.name());
    if (adapter != nullptr) result.push_back({std::move(target), adapter});
  }
  return result;
}

void check_targets(const std::vector<LinearTarget>& known, const LoraOptions& options) {
  std::set<std::string> short_names;
  for (const LinearTarget& one : known) short_names.insert(one.name());
  for (const std::string& target : options.targets) {
    const bool found = std::any_of(known.begin(), known.end(), [&](const LinearTarget& one) {
      return names_module(target, one.module);
    });
    if (!found)
      fail(adapter_reader,
           {.argument = "targets",
            .expected = fmt::format("linear layers of this model: {}, {}, or a name like {}",
                                    all_linear, fmt::join(short_names, ", "), known[0].module),
            .found = json::in_quotes(target)});
  }
}

// The names of adapted layers for adapter_config.json: "q_proj" if that names no other layer.
std::vector<std::string> target_names(nn::LanguageModel& model) {
  std::set<std::string> short_names, whole_names;
  for (const Adapted& one : adapters_of(model)) {
    short_names.insert(one.target.name());
    whole_names.insert(one.target.module);
  }
  const std::vector<LinearTarget> known = linear_targets(model);
  const bool unique = std::all_of(known.begin(), known.end(), [&](const LinearTarget& one) {
    return whole_names.contains(one.module) || !short_names.contains(one.name());
  });
  const auto& chosen = unique ? short_names : whole_names;
  return {chosen.begin(), chosen.end()};
}

// Alpha of a module by the entries of alpha_pattern, whose names are ends of modules' names.
struct Scaling {
  double alpha = 8;
  bool by_root = false;  // alpha / sqrt(rank): rsLoRA
  std::map<std::string, double> alphas = {};

  double of(const std::string& module, int64_t rank) const {
    double chosen = alpha;
    for (const auto& [name, value] : alphas) {
      if (names_module(name, module)) chosen = value;
    }
    const auto r = static_cast<double>(rank);
    return chosen / (by_root ? std::sqrt(r) : r);
  }
};

struct AdapterFile {
  AdapterConfig config = AdapterConfig();
  Scaling scaling;
};

// Settings that change what an adapter computes, with the only value that Binade has.
void refuse_variants(const json::Value& root) {
  const auto require_unset = [&root](const char* key) {
    const json::Value* found = root.find(key);
    if (found == nullptr || found->is_null()) return;
    if (found->is_array() && found->array().empty()) return;
    if (found->is_object() && found->object().empty()) return;
    found->refuse("no setting: Binade reads plain LoRA adapters", found->describe());
  };
  for (const char* key : {"modules_to_save", "layers_to_transform", "layer_replication",
                          "trainable_token_indices", "target_parameters", "exclude_modules"})
    require_unset(key);
  for (const char* key : {"use_dora", "lora_bias"}) {
    const json::Value* found = root.find(key);
    if (found != nullptr && found->boolean())
      found->refuse("false: Binade reads plain LoRA adapters", "true");
  }
  if (const json::Value* bias = root.find("bias"); bias != nullptr && bias->string() != "none")
    bias->refuse("\"none\"", bias->describe());
}

std::map<std::string, double> read_pattern(const json::Value& root, const char* key) {
  std::map<std::string, double> result;
  const json::Value* found = root.find(key);
  if (found == nullptr || found->is_null()) return result;
  for (const auto& [name, value] : found->object()) {
    const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '_' || c == '.';
    });
    if (!plain) value.refuse("the name of a module", json::in_quotes(name));
    result[name] = value.number();
  }
  return result;
}

AdapterFile read_file(const fs::path& folder) {
  const fs::path path = folder / config_name;
  const std::string text = read_text(path, adapter_reader, max_adapter_config);
  const json::Document document = json::parse(text, {adapter_reader, path.string()});
  const json::Value& root = document.root();
  if (root.at("peft_type").string() != "LORA")
    root.at("peft_type").refuse("\"LORA\"", root.at("peft_type").describe());
  refuse_variants(root);
  AdapterFile file;
  LoraOptions& lora = file.config.lora;
  lora.rank = root.at("r").integer(1, 1 << 20);
  lora.alpha = file.scaling.alpha = root.at("lora_alpha").number();
  if (const json::Value* value = root.find("use_rslora")) file.scaling.by_root = value->boolean();
  if (const json::Value* value = root.find("lora_dropout")) lora.dropout = value->number();
  file.scaling.alphas = read_pattern(root, "alpha_pattern");
  file.config.scaled_alike = !file.scaling.by_root && file.scaling.alphas.empty();
  if (const json::Value* value = root.find("target_modules"); value && value->is_array()) {
    lora.targets.clear();
    for (const json::Value& one : value->array()) lora.targets.push_back(one.string());
  }
  if (const json::Value* value = root.find("base_model_name_or_path"); value && value->is_string())
    file.config.base = value->string();
  return file;
}

// The differences between a file's tensors and those expected, as one message.
void check_tensors(const std::map<std::string, Shape>& expected, const StateDict& given,
                   const std::string& source) {
  std::string differences;
  for (const auto& [name, shape] : expected) {
    const auto found = given.find(name);
    if (found == given.end()) {
      differences += "\n  missing: " + name + " " + to_string(shape);
    } else if (found->second.shape() != shape || !is_compute(found->second.dtype())) {
      differences += fmt::format("\n  {}: expected {} of a floating type, found {}", name,
                                 to_string(shape), describe(found->second));
    }
  }
  for (const auto& [name, tensor] : given) {
    if (!expected.contains(name)) differences += "\n  not in this model: " + json::in_quotes(name);
  }
  if (!differences.empty())
    fail(adapter_reader, {.argument = source,
                          .expected = "the adapters of this model",
                          .found = "these differences:" + differences});
}

}  // namespace

void add_adapters(nn::LanguageModel& model, const LoraOptions& options) {
  const std::vector<LinearTarget> known = linear_targets(model);
  check_targets(known, options);
  const auto linears = linears_of(model);
  for (auto& [name, parameter] : model.named_parameters()) parameter.set_requires_grad(false);
  for (const LinearTarget& target : known) {
    const bool chosen =
        std::any_of(options.targets.begin(), options.targets.end(),
                    [&](const auto& one) { return names_module(one, target.module); });
    if (!chosen) continue;
    nn::Linear& linear = *linears.at(target.path);
    const Shape shape = linear.weight_shape();
    linear.add_adapter(target.name(), {.in = shape[1],
                                       .begin = target.part.begin,
                                       .rows = target.part.rows > 0 ? target.part.rows : shape[0],
                                       .rank = options.rank,
                                       .scale = options.alpha / static_cast<double>(options.rank),
                                       .dropout = options.dropout});
  }
}

StateDict adapter_tensors(nn::LanguageModel& model) {
  const NoGrad no_grad;
  StateDict tensors;
  for (const Adapted& one : adapters_of(model)) {
    tensors[a_name(one.target)] = clone(one.adapter->a.detach());
    tensors[b_name(one.target)] = clone(reshape(one.file_b(), one.adapter->b.shape()));
  }
  return tensors;
}

void load_adapter_tensors(nn::LanguageModel& model, const StateDict& tensors) {
  const std::vector<Adapted> adapters = adapters_of(model);
  std::map<std::string, Shape> expected;
  for (const Adapted& one : adapters) {
    expected[a_name(one.target)] = one.adapter->a.shape();
    expected[b_name(one.target)] = one.adapter->b.shape();
  }
  check_tensors(expected, tensors, "adapter");
  const NoGrad no_grad;
  for (const Adapted& one : adapters) {
    copy_(one.adapter->a.detach(), tensors.at(a_name(one.target)));
    const Tensor b = one.file_b();
    copy_(b, reshape(tensors.at(b_name(one.target)), b.shape()));
  }
}

std::string adapter_config_json(nn::LanguageModel& model, const AdapterConfig& config) {
  const std::vector<Adapted> adapters = adapters_of(model);
  const bool transposed = std::any_of(adapters.begin(), adapters.end(), [](const Adapted& one) {
    return one.target.part.transposed;
  });
  json::Writer out(2);
  out.begin_object().key("peft_type").value("LORA").key("task_type").value("CAUSAL_LM");
  out.key("base_model_name_or_path").value(config.base);
  out.key("r").value(config.lora.rank).key("lora_alpha").value(config.lora.alpha);
  out.key("lora_dropout").value(config.lora.dropout).key("bias").value("none");
  out.key("fan_in_fan_out").value(transposed).key("inference_mode").value(true);
  out.key("target_modules").begin_array();
  for (const std::string& name : target_names(model)) out.value(name);
  return out.end_array().end_object().text() + "\n";
}

const formats::BlockFormat* base_format_of(const fs::path& folder) {
  const fs::path path = folder / weights_name;
  const SafetensorsFile file(path);
  const auto found = file.metadata().find(base_format_key);
  if (found == file.metadata().end()) return nullptr;
  const formats::BlockFormat* format = formats::find_base_format(found->second);
  if (format == nullptr)
    fail(adapter_reader, {.argument = path.string() + " (" + base_format_key + ")",
                          .expected = formats::base_format_names(),
                          .found = json::in_quotes(found->second)});
  return format;
}

bool is_adapter(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / config_name, error) &&
         !fs::exists(folder / "model.safetensors", error) &&
         !fs::exists(folder / "model.safetensors.index.json", error);
}

AdapterConfig read_adapter_config(const fs::path& folder) { return read_file(folder).config; }

fs::path adapter_base(const fs::path& folder) {
  fs::path base = read_adapter_config(folder).base;
  std::error_code error;
  // A relative path is relative to where the program runs, as in PEFT.
  if (is_adapter(base))
    fail(adapter_reader,
         {.argument = (folder / config_name).string(),
          .expected = "an adapter of a model with weights of its own",
          .found = "one of another adapter, " + base.string(),
          .hint = "merge that one first: binade export " + base.string() + " MERGED"});
  if (!fs::exists(base, error))
    fail(adapter_reader,
         {.argument = (folder / config_name).string(),
          .expected = "base_model_name_or_path with the folder of the adapted model",
          .found = json::in_quotes(base.string()) + ", which is not there",
          .hint = "download that model, and write its folder into adapter_config.json"});
  return base;
}

std::vector<AdapterPart> read_adapter_parts(const nn::LanguageModel& model,
                                            const fs::path& folder) {
  const AdapterFile file = read_file(folder);
  const StateDict tensors = load_safetensors(folder / weights_name),
                  parameters = parameters_of(model);
  std::vector<AdapterPart> parts;
  std::map<std::string, Shape> expected;
  for (LinearTarget& target : linear_targets(model)) {
    const auto a = tensors.find(a_name(target)), b = tensors.find(b_name(target));
    if (a == tensors.end() || a->second.rank() != 2) continue;
    Shape weight = file_shape(parameters, target.part);
    if (target.part.transposed) std::swap(weight[0], weight[1]);
    const int64_t rank = a->second.size(0);
    expected[a_name(target)] = {rank, weight[1]};
    expected[b_name(target)] = {weight[0], rank};
    const double scale = file.scaling.of(target.module, rank);
    if (b != tensors.end()) parts.push_back({std::move(target), a->second, b->second, scale});
  }
  check_tensors(expected, tensors, (folder / weights_name).string());
  return parts;
}

void merge_adapter(nn::LanguageModel& model, const fs::path& folder) {
  if (const formats::BlockFormat* format = base_format_of(folder)) round_base(model, *format);
  const StateDict parameters = parameters_of(model);
  const NoGrad no_grad;
  const amp::Autocast off(amp::disabled_autocast());
  const auto loaded = [&](const Tensor& tensor) {
    return cast(to(tensor, model.head_weight().device()), DType::f32);
  };
  for (const AdapterPart& one : read_adapter_parts(model, folder)) {
    const Part& part = one.target.part;
    const Tensor weight = view_of(parameters, part);
    Tensor update = matmul(loaded(one.b), loaded(one.a)) * one.scale;
    if (part.transposed) update = transpose(update, 0, 1);
    if (part.heads > 0) update = reshape(update, weight.shape());
    copy_(weight, cast(weight, DType::f32) + update);
  }
}

fs::path config_file(const fs::path& folder) {
  if (gguf::is_gguf(folder)) return folder;
  std::error_code error;
  const bool own = fs::exists(folder / "config.json", error) || !is_adapter(folder);
  return own ? folder / "config.json" : config_file(adapter_base(folder));
}

}  // namespace binade::io
