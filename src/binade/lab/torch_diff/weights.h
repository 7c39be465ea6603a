#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "binade/io/huggingface_parts.h"
#include "binade/lab/torch_diff/torch_diff.h"

// Which parameter of a torch model is which part of a model's.
namespace binade::lab {

struct PairedWeight {
  io::Part part;
  std::string torch;  // its name in the recording

  std::string name() const { return "weight/" + torch; }
};

// Fails if the recording is of a model with other parameters.
std::vector<PairedWeight> pair_weights(const nn::LanguageModel& model,
                                       const TorchRecording& recording);

// The torch modules whose parameters a module has, in the order of its rows: q_proj, k_proj and
// v_proj for "blocks.0.attention.qkv".
std::map<std::string, std::vector<std::string>> torch_modules(
    const std::vector<PairedWeight>& weights);

// A parameter's name without its last part: "blocks.0.attention.qkv" of its weight.
std::string module_of(const std::string& parameter);

// The part of a tensor of a parameter's shape that a torch parameter has, in its layout.
Tensor torch_part(const Tensor& whole, const PairedWeight& weight, const Shape& shape);

// The first weight whose bits, in the recording's type, are not those recorded.
std::optional<TorchDifference> different_weight(const nn::LanguageModel& model,
                                                const std::vector<PairedWeight>& weights,
                                                const TorchRecording& recording);

}  // namespace binade::lab
