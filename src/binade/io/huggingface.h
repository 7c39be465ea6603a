#pragma once

#include "binade/base/function_ref.h"
#include "binade/io/safetensors.h"
#include "binade/nn/language_model.h"

// The names, layouts and configuration files of Hugging Face's model families (io/families).
namespace binade::io {

// Copies of a model's weights under Hugging Face's names. Fails for models that no
// supported family has.
StateDict to_huggingface(const nn::LanguageModel& model);

// The bytes of each of these tensors; reads no weights.
std::map<std::string, int64_t> huggingface_bytes(const nn::LanguageModel& model);
// Copies in the host's memory of those tensors that `wanted` accepts by their names and those of
// the parameters they are parts of; reads no others.
StateDict to_huggingface(
    const nn::LanguageModel& model,
    FunctionRef<bool(const std::string& name, const std::string& parameter)> wanted);

// Copies weights into a model, converting types. Names may lack the family's prefix;
// masks and rotary tables in old files are ignored. One error names every missing, surplus and
// misshapen tensor; the model is unchanged then.
void load_huggingface(nn::LanguageModel& model, const StateDict& weights);

// config.json of a supported family, or the keys of a GGUF file (gguf/model.h). Settings that no
// weight depends on (dropout, recompute, the residual stream's type, the seed) keep their defaults.
// Variants that Binade does not support are refused.
nn::LanguageModelConfig read_config(const Path& path);
// read_config() from the text of the file; error messages call it `name`.
nn::LanguageModelConfig parse_config(std::string_view text, const std::string& name);
// The text of a config.json, on one line, without a type.
std::string config_json(const nn::LanguageModelConfig& config);
void write_config(const Path& path, const nn::LanguageModelConfig& config,
                  DType dtype = DType::f32);

// A directory with config.json and model.safetensors (or, for reading, its shards). Each file is
// replaced atomically.
void save_pretrained(const nn::LanguageModel& model, const Path& directory);
// From a folder with an adapter (lora.h): its base with the adapter merged into the weights. Here
// and below, a GGUF file may stand for a folder.
std::unique_ptr<nn::LanguageModel> load_pretrained(const std::filesystem::path& directory,
                                                   nn::Placement placement = {});
// Copies the weights of a directory into a model of the same sizes. A GPT-2 with a shorter context
// takes as many of the learned positions as it has.
void load_weights(nn::LanguageModel& model, const std::filesystem::path& directory);
// load_weights()' checks of names, shapes and types, without reading the values.
void check_weights(const nn::LanguageModelConfig& config, const std::filesystem::path& directory);
// The type of a directory's weights; the widest if they differ. Of an adapter, its base's.
DType stored_type(const std::filesystem::path& directory);

}  // namespace binade::io
