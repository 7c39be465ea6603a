#include "binade/io/huggingface.h"

#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <set>

#include "binade/autograd/grad_mode.h"
#include "binade/base/json.h"
#include "binade/io/base_parts.h"
#include "binade/io/gguf/model.h"
#include "binade/io/huggingface_config.h"
#include "binade/io/huggingface_parts.h"
#include "binade/io/lora.h"
#include "binade/io/weight_shards.h"
#include "binade/nn/init.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/shape/shape.h"

namespace binade::io {
namespace {

constexpr const char* weights_reader = "huggingface";

// Buffers that old files carry although the configuration determines them.
bool is_buffer(std::string_view name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
         name.ends_with(".attention.bias") || name.ends_with(".attention.masked_bias") ||
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
      fail(weights_reader, {.argument = name, .expected = "a tensor", .found = "none"});
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
    fail(weights_reader, {.argument = "weights",
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
  const std::vector<Part> parts = parts_of(config, parameters);
  const Family& family = family_of(config);
  const std::string_view prefix = family.prefix;
  // Models without a head are saved without the prefix.
  const bool bare = !given.tensors.contains(parts[0].file_name);
  std::map<std::string, std::string> names;
  std::set<std::string> used;
  if (config.tied_head) used.insert(std::string(family.head));
  Differences differences;
  for (const Part& part : parts) {
    const bool cut = bare && part.file_name.starts_with(prefix);
    const std::string name = cut ? part.file_name.substr(prefix.size()) : part.file_name;
    names[part.file_name] = name;
    used.insert(name);
    const Shape shape = file_shape(parameters, part);
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
void check_tied_copy(const Incoming& given, const std::string& head_name,
                     const std::string& embedding_name) {
  if (!given.tensors.contains(head_name)) return;
  const NoGrad no_grad;
  const Tensor head = contiguous(to(given.load(head_name), Device::cpu()));
  const Tensor embedding = contiguous(to(given.load(embedding_name), Device::cpu()));
  const bool alike = head.shape() == embedding.shape() && head.dtype() == embedding.dtype();
  const auto bytes = static_cast<size_t>(head.bytes());
  if (alike && std::memcmp(head.raw_data(), embedding.raw_data(), bytes) == 0) return;
  fail(weights_reader,
       {.argument = head_name,
        .expected = "the same values as " + embedding_name + ", the head being tied to it",
        .found = "others",
        .hint = "set tie_word_embeddings to false in config.json"});
}

void copy_in(nn::LanguageModel& model, const Incoming& given,
             Positions positions = Positions::exact) {
  const StateDict parameters = parameters_of(model);
  const auto names = match(parameters, model.config(), given, positions);
  const std::vector<Part> parts = parts_of(model.config(), parameters);
  if (model.config().tied_head)
    check_tied_copy(given, std::string(family_of(model.config()).head),
                    names.at(parts[0].file_name));
  const NoGrad no_grad;
  const BaseParts base(model);
  for (const Part& part : parts) {
    const Tensor source = given.load(names.at(part.file_name));
    if (base.hold(part)) {
      base.encode(part, source);
      continue;
    }
    const Tensor target = view_of(parameters, part);
    if (part.heads > 0) {
      copy_(target, reshape(source, target.shape()));
    } else {
      copy_(target, positions == Positions::exact ? source : slice(source, 0, 0, target.size(0)));
    }
  }
}

// model.safetensors, or the shards its index names.
TensorStore open_weights(const std::filesystem::path& directory) {
  std::error_code error;
  const auto has = [&](const char* name) {
    return std::filesystem::exists(directory / name, error);
  };
  // Pickles may run any program when they are read.
  const bool pickled = has("pytorch_model.bin") || has("pytorch_model.bin.index.json");
  if (pickled && !has("model.safetensors") && !has(weight_index_file)) {
    const std::string folder = directory.string();
    fail(weights_reader,
         {.argument = folder,
          .expected = "model.safetensors",
          .found = "pytorch_model.bin, a pickle, which Binade does not read",
          .hint = "convert it: python -c \"from transformers import AutoModelForCausalLM as M; "
                  "M.from_pretrained('" +
                  folder + "').save_pretrained('" + folder + "', safe_serialization=True)\""});
  }
  const bool whole = has("model.safetensors");
  if (!whole && !has(weight_index_file)) {
    fail(weights_reader,
         {.argument = directory.string(),
          .expected = "model.safetensors, or model.safetensors.index.json with its "
                      "shards",
          .found = std::filesystem::is_directory(directory, error) ? "neither of them in it"
                                                                   : "no such folder"});
  }
  return TensorStore(directory / (whole ? "model.safetensors" : weight_index_file));
}

// A tensor of the file: a view of the parameter's data where the layout allows.
Tensor file_tensor(const StateDict& parameters, const Part& part) {
  const Tensor view = view_of(parameters, part);
  return part.heads > 0 ? reshape(view, file_shape(parameters, part)) : view;
}

// A model's weights under Hugging Face's names.
StateDict views_of(const nn::LanguageModel& model) {
  const StateDict parameters = parameters_of(model);
  StateDict views;
  for (const Part& part : parts_of(model.config(), parameters))
    views[part.file_name] = file_tensor(parameters, part);
  return views;
}

}  // namespace

StateDict to_huggingface(const nn::LanguageModel& model) {
  StateDict weights = views_of(model);
  for (auto& [name, tensor] : weights) tensor = clone(tensor);
  return weights;
}

std::map<std::string, int64_t> huggingface_bytes(const nn::LanguageModel& model) {
  const StateDict parameters = parameters_of(model);
  std::map<std::string, int64_t> bytes;
  for (const Part& part : parts_of(model.config(), parameters))
    bytes[part.file_name] = view_of(parameters, part).bytes();
  return bytes;
}

StateDict to_huggingface(const nn::LanguageModel& model,
                         FunctionRef<bool(const std::string&, const std::string&)> wanted) {
  const NoGrad no_grad;
  const StateDict parameters = parameters_of(model);
  StateDict weights;
  for (const Part& part : parts_of(model.config(), parameters)) {
    if (!wanted(part.file_name, part.parameter)) continue;
    const Tensor tensor = file_tensor(parameters, part);
    weights[part.file_name] =
        tensor.device() == Device::cpu() ? clone(tensor) : to(tensor, Device::cpu());
  }
  return weights;
}

void load_huggingface(nn::LanguageModel& model, const StateDict& weights) {
  copy_in(model, incoming(weights));
}

void save_pretrained(const nn::LanguageModel& model, const Path& directory) {
  const StateDict weights = views_of(model);
  directory.make_folder(weights_reader);
  save_safetensors(directory / "model.safetensors", weights);
  write_config(directory / "config.json", model.config(), weights.begin()->second.dtype());
}

std::unique_ptr<nn::LanguageModel> load_pretrained(const std::filesystem::path& directory,
                                                   nn::Placement placement) {
  const nn::LanguageModelConfig config = read_config(config_file(directory));
  if (is_adapter(directory)) {
    const nn::init::SkipInit unset;
    auto model = std::make_unique<nn::LanguageModel>(config, placement);
    load_weights(*model, directory);
    return model;
  }
  if (gguf::is_gguf(directory)) {
    const gguf::File file(directory);
    gguf::check_weights(config, file, gguf::Positions::exact);
    const nn::init::SkipInit unset;
    auto model = std::make_unique<nn::LanguageModel>(config, placement);
    gguf::load_weights(*model, file, gguf::Positions::exact);
    return model;
  }
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
  if (is_adapter(directory)) {
    load_weights(model, adapter_base(directory));
    merge_adapter(model, directory);
    return;
  }
  if (gguf::is_gguf(directory))
    return gguf::load_weights(model, gguf::File(directory), gguf::Positions::at_least);
  const TensorStore store = open_weights(directory);
  copy_in(model, incoming(store), Positions::at_least);
}

void check_weights(const nn::LanguageModelConfig& config, const std::filesystem::path& directory) {
  if (is_adapter(directory)) return check_weights(config, adapter_base(directory));
  if (gguf::is_gguf(directory))
    return gguf::check_weights(config, gguf::File(directory), gguf::Positions::at_least);
  const TensorStore store = open_weights(directory);
  const nn::LanguageModel model(config, {Device::meta(), DType::f32});
  match(parameters_of(model), config, incoming(store), Positions::at_least);
}

DType stored_type(const std::filesystem::path& directory) {
  if (is_adapter(directory)) return stored_type(adapter_base(directory));
  if (gguf::is_gguf(directory)) return gguf::stored_type(gguf::File(directory));
  const TensorStore store = open_weights(directory);
  std::optional<DType> type;
  for (const auto& [name, entry] : store.entries()) {
    if (is_weight_type(entry->dtype) && !is_buffer(name))
      type = type ? promote(*type, *entry->dtype) : *entry->dtype;
  }
  return type.value_or(DType::f32);
}

}  // namespace binade::io
