#include "binade/io/convert_model.h"

#include <algorithm>

#include "binade/autograd/grad_mode.h"
#include "binade/base/json.h"
#include "binade/io/compressed_tensors.h"
#include "binade/io/folder.h"
#include "binade/io/gguf/file.h"
#include "binade/io/huggingface_config.h"
#include "binade/io/lora.h"
#include "binade/io/model_folder.h"
#include "binade/io/tensor_statistics.h"
#include "binade/ops/elementwise/unary.h"

namespace binade::io {
namespace {

namespace fs = std::filesystem;

constexpr const char* converter = "convert";
constexpr int64_t max_file = int64_t{64} << 20;
constexpr const char* tokenizer_names[] = {"tokenizer.json", "tokenizer.model", "vocab.json",
                                           "merges.txt"};

void check_target(const fs::path& from, const fs::path& to, bool force) {
  std::error_code error;
  if (fs::equivalent(from, to, error)) {
    fail(converter, {.argument = to.string(),
                     .expected = "another folder than the model's own",
                     .found = "the same"});
  }
  check_not_a_run(to, converter);
  for (const char* name : {"config.json", "model.safetensors", "model.safetensors.index.json",
                           "adapter_config.json"}) {
    if (force || !fs::exists(to / name, error)) continue;
    fail(converter, {.argument = to.string(),
                     .expected = "a folder without a model",
                     .found = std::string(name) + " in it",
                     .hint = "add --force to replace it"});
  }
}

void check_source(const fs::path& from) {
  std::error_code error;
  if (fs::is_directory(from, error) || (gguf::is_gguf(from) && fs::exists(from, error))) return;
  fail(converter, {.argument = from.string(),
                   .expected = "a folder with config.json and model.safetensors or its shards, or "
                               "a GGUF file",
                   .found = fs::exists(from, error) ? "a file" : "nothing there"});
}

// Whether a file belongs to a model, and so not beside another one.
bool is_of_a_model(const std::string& name) {
  return std::find(std::begin(tokenizer_names), std::end(tokenizer_names), name) !=
             std::end(tokenizer_names) ||
         is_companion(name) || name == "adapter_config.json" ||
         name == "adapter_model.safetensors" || name == "config.json" ||
         name == "model.safetensors.index.json" ||
         (name.starts_with("model") && name.ends_with(".safetensors"));
}

// A weight beyond the range of a narrower type would become infinite.
void require_finite(const nn::LanguageModel& model, DType dtype, const fs::path& from) {
  for (const auto& [name, parameter] : model.named_parameters()) {
    const Statistics numbers = statistics_of(safetensors_format(dtype),
                                             {static_cast<const std::byte*>(parameter.raw_data()),
                                              static_cast<size_t>(parameter.bytes())});
    if (numbers.finite() == numbers.count) continue;
    fail(converter,
         {.argument = from.string() + " (" + name + ")",
          .expected = "weights that are finite in " + std::string(binade::name(dtype)),
          .found = std::to_string(numbers.count - numbers.finite()) + " that are not",
          .hint = dtype == DType::f16 ? "bf16 has the range of f32: try --dtype bf16" : ""});
  }
}

// Leaves sampling settings to the converter.
std::string generation_config(const nn::LanguageModelConfig& config) {
  json::Writer out(2);
  out.begin_object().key("_from_model_config").value(true);
  write_special_tokens(out, config);
  return out.end_object().text() + "\n";
}

void copy_text_file(const fs::path& from, const Path& to) {
  AtomicFile file(to, converter);
  file.append(read_text(from, converter, max_file));
  file.commit();
}

void copy_tokenizer(const fs::path& from, const Path& to) {
  for (const char* name : tokenizer_names) {
    if (std::error_code error; fs::exists(from / name, error))
      copy_text_file(from / name, to / name);
  }
}

// `tensors` are those of compressed_weights(), made before the model got its type.
void save_compressed(nn::LanguageModel& model, StateDict tensors,
                     const WeightFormatOptions& weights, const Path& folder) {
  StateDict others = to_huggingface(model);
  const DType dtype = others.begin()->second.dtype();
  for (auto& [name, tensor] : others) {
    const auto found = tensors.find(name);
    // Codes may have the name of what they stand for.
    if (found != tensors.end() && found->second.dtype() != DType::e4m3) found->second = tensor;
  }
  folder.make_folder(converter);
  save_safetensors(folder / "model.safetensors", tensors);
  write_compressed_config(folder / "config.json", model, weights, dtype);
}

}  // namespace

Converted convert_pretrained(const fs::path& from, const fs::path& to,
                             const ConvertOptions& options) {
  check_target(from, to, options.force);
  check_source(from);
  const DType dtype = options.dtype.value_or(stored_type(from));
  const bool compresses = !options.weights.format.empty();
  // An adapter is merged in f32 and rounded once; codes are made from f32.
  const bool is_wide = compresses || is_adapter(from);
  const auto model = load_pretrained(from, {Device::cpu(), is_wide ? DType::f32 : dtype});
  StateDict compressed;
  if (compresses) {
    require_finite(*model, DType::f32, from);
    compressed = compressed_weights(*model, options.weights);
  }
  model->to(dtype);
  require_finite(*model, dtype, from);
  AtomicFolder folder(to, converter);
  if (compresses) {
    save_compressed(*model, std::move(compressed), options.weights, folder.path());
  } else {
    save_pretrained(*model, folder.path());
  }
  CompanionFiles companions = read_companions(from, converter);
  // PEFT's folders may leave these to the base.
  if (is_adapter(from)) {
    copy_tokenizer(adapter_base(from), folder.path());
    companions.merge(read_companions(adapter_base(from), converter));
  }
  copy_tokenizer(from, folder.path());
  companions.try_emplace("generation_config.json", generation_config(model->config()));
  write_companions(companions, folder.path(), converter);
  if (options.complete) options.complete(folder.path().plain());
  folder.commit([](const std::string& name) { return !is_of_a_model(name); });
  return {model->parameter_count(), dtype};
}

Converted convert_adapter(const fs::path& from, const fs::path& to, const ConvertOptions& options) {
  check_target(from, to, options.force);
  check_source(from);
  if (!is_adapter(from))
    fail(converter, {.argument = from.string(),
                     .expected = "a folder with adapter_config.json, as a run with --lora-rank has",
                     .found = "a model without an adapter"});
  read_adapter_config(from);
  const NoGrad no_grad;
  StateDict tensors = load_safetensors(from / "adapter_model.safetensors");
  Converted done{.dtype = options.dtype.value_or(DType::f32)};
  for (auto& [name, tensor] : tensors) {
    if (options.dtype) tensor = cast(tensor, *options.dtype);
    done.dtype = tensor.dtype();
    done.parameters += tensor.numel();
  }
  AtomicFolder folder(to, converter);
  Metadata metadata;
  if (const formats::BlockFormat* format = base_format_of(from))
    metadata[base_format_key] = std::string(format->name);
  save_safetensors(folder.path() / "adapter_model.safetensors", tensors, metadata);
  copy_text_file(from / "adapter_config.json", folder.path() / "adapter_config.json");
  copy_tokenizer(from, folder.path());
  write_companions(read_companions(from, converter), folder.path(), converter);
  folder.commit([](const std::string& name) { return !is_of_a_model(name); });
  return done;
}

}  // namespace binade::io
