#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "binade/formats/blocks/block_format.h"
#include "binade/nn/language_model.h"

// Low-rank adapters (nn/lora.h) of a model's linear layers, and their files in the layout of the
// PEFT package: adapter_config.json and adapter_model.safetensors.
namespace binade::io {

// Stands for every linear layer but the head.
inline constexpr std::string_view all_linear = "all-linear";

struct LoraOptions {
  int64_t rank = 8;
  double alpha = 16;  // the update is scaled by alpha / rank
  double dropout = 0;
  // Linear layers by Hugging Face's names: "q_proj" (the end of a name), a whole name, a pattern of
  // whole names with * and ?, or all_linear.
  std::vector<std::string> targets = {std::string(all_linear)};
};

// Adds an adapter to every layer that a target names, and freezes all other parameters. Fails for a
// target that names none.
void add_adapters(nn::LanguageModel& model, const LoraOptions& options);

// Copies of a model's adapters under PEFT's names; empty if it has none.
StateDict adapter_tensors(nn::LanguageModel& model);
// Copies tensors of these names into a model's adapters. One error names every missing, surplus and
// misshapen tensor; the adapters are unchanged then.
void load_adapter_tensors(nn::LanguageModel& model, const StateDict& tensors);

// The contents of an adapter_config.json.
struct AdapterConfig {
  LoraOptions lora = LoraOptions();
  std::string base;  // folder of the model that is adapted
  // Whether all updates are scaled by alpha / rank: not with use_rslora or alpha_pattern.
  bool scaled_alike = true;
};
// The text of a model's adapter_config.json; `base` names the adapted model.
std::string adapter_config_json(nn::LanguageModel& model, const AdapterConfig& config);

// Whether a folder holds an adapter and no weights of its own.
bool is_adapter(const std::filesystem::path& folder);
// Fails for variants that Binade does not have (DoRA, trained biases, fully trained modules).
AdapterConfig read_adapter_config(const std::filesystem::path& folder);
// The format of few bits that the base had in memory when the adapter was trained, by the metadata
// of the adapter's file; null if it had none.
const formats::BlockFormat* base_format_of(const std::filesystem::path& folder);
inline constexpr const char* base_format_key = "base_format";
// The folder of the adapted model. Fails if there is none of that name on this machine.
std::filesystem::path adapter_base(const std::filesystem::path& folder);
// Adds the updates of a folder's adapter to the weights of the model it adapts, in f32. Weights
// that had a format when it was trained are rounded to that first.
void merge_adapter(nn::LanguageModel& model, const std::filesystem::path& folder);

// The config.json of a model's folder, or a GGUF file itself; of an adapter without one, that of
// its base.
std::filesystem::path config_file(const std::filesystem::path& folder);

}  // namespace binade::io
