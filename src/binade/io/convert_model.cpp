#include "binade/io/convert_model.h"

#include <algorithm>

#include "binade/base/json.h"
#include "binade/io/folder.h"
#include "binade/io/huggingface_config.h"
#include "binade/io/model_folder.h"
#include "binade/io/tensor_statistics.h"

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
  for (const char* name : {"config.json", "model.safetensors", "model.safetensors.index.json"}) {
    if (force || !fs::exists(to / name, error)) continue;
    fail(converter, {.argument = to.string(),
                     .expected = "a folder without a model",
                     .found = std::string(name) + " in it",
                     .hint = "add --force to replace it"});
  }
}

// Whether a file belongs to a model, and so not beside another one.
bool is_of_a_model(const std::string& name) {
  return std::find(std::begin(tokenizer_names), std::end(tokenizer_names), name) !=
             std::end(tokenizer_names) ||
         is_companion(name) || name == "config.json" || name == "model.safetensors.index.json" ||
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

// Leaves sampling settings to the caller.
std::string generation_config(const nn::LanguageModelConfig& config) {
  json::Writer out(2);
  out.begin_object().key("_from_model_config").value(true);
  write_special_tokens(out, config);
  return out.end_object().text() + "\n";
}

}  // namespace

Converted convert_pretrained(const fs::path& from, const fs::path& to,
                             const ConvertOptions& options) {
  check_target(from, to, options.force);
  const DType dtype = options.dtype.value_or(stored_type(from));
  const auto model = load_pretrained(from, {Device::cpu(), dtype});
  require_finite(*model, dtype, from);
  AtomicFolder folder(to, converter);
  save_pretrained(*model, folder.path());
  for (const char* name : tokenizer_names) {
    if (std::error_code error; !fs::exists(from / name, error)) continue;
    AtomicFile file(folder.path() / name, converter);
    file.append(read_text(from / name, converter, max_file));
    file.commit();
  }
  CompanionFiles companions = read_companions(from, converter);
  companions.try_emplace("generation_config.json", generation_config(model->config()));
  write_companions(companions, folder.path(), converter);
  if (options.complete) options.complete(folder.path());
  folder.commit([](const std::string& name) { return !is_of_a_model(name); });
  return {model->parameter_count(), dtype};
}

}  // namespace binade::io
