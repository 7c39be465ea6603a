#pragma once

#include "binade/io/safetensors.h"
#include "binade/nn/language_model.h"

// The names, layouts and configuration files of Hugging Face's GPT-2 and Llama.
namespace binade::io {

// A model's weights under Hugging Face's names, each with memory of its own. Fails for models that
// are neither a GPT-2 nor a Llama.
StateDict to_huggingface(const nn::LanguageModel& model);

// Copies weights in, converting types. GPT-2's names may lack the prefix "transformer."; masks and
// rotary tables that old files carry are passed over. One error names every missing, surplus and
// misshapen tensor; then nothing was changed.
void load_huggingface(nn::LanguageModel& model, const StateDict& weights);

// config.json of model_type gpt2 or llama. Settings that no weight depends on (dropout, recompute,
// the residual stream's type, the seed) keep their defaults. Variants Binade does not have are
// refused.
nn::LanguageModelConfig read_config(const std::filesystem::path& path);
void write_config(const std::filesystem::path& path, const nn::LanguageModelConfig& config,
                  DType dtype = DType::f32);

// A directory with config.json and model.safetensors (or, for reading, its shards). Each file is
// replaced as a whole.
void save_pretrained(const nn::LanguageModel& model, const std::filesystem::path& directory);
std::unique_ptr<nn::LanguageModel> load_pretrained(const std::filesystem::path& directory,
                                                   nn::Placement placement = {});
// Copies the weights of a directory into a model of the same sizes. A GPT-2 with a shorter context
// takes the first of the learned positions.
void load_weights(nn::LanguageModel& model, const std::filesystem::path& directory);
// The type a directory's weights are stored in; the wider one where they differ.
DType stored_type(const std::filesystem::path& directory);

}  // namespace binade::io
