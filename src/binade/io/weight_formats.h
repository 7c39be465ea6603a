#pragma once

#include <string>
#include <vector>

#include "binade/formats/weights/weight_format.h"
#include "binade/nn/language_model.h"

// Which weights of a model a file holds in a format of few bits.
namespace binade::io {

struct WeightFormatOptions {
  std::string format = {};  // formats::find_weight_format(); empty: none
  bool head = false;        // the LM head, too, which must not share the embedding's weight
  // Linear layers of the blocks that stay as they are, named as in LoraOptions::targets.
  std::vector<std::string> exclude = {};

  bool operator==(const WeightFormatOptions&) const = default;
};

// Makes the linear layers of a model's blocks compute with the values that a file in this format
// will hold for them (nn::Linear::set_weight_format). Each tensor of the file is rounded by itself.
// Embeddings, norms and biases stay as they are. Fails for a name that excludes nothing, and for a
// layer whose rows the format's groups do not divide.
void set_weight_format(nn::LanguageModel& model, const WeightFormatOptions& options);

}  // namespace binade::io
