#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "binade/io/huggingface_parts.h"

// The linear layers of a model's blocks by Hugging Face's names. Not part of the public interface.
namespace binade::io {

// A linear layer of a Hugging Face model: all of one of Binade's, or some of its channels.
struct LinearTarget {
  Part part;           // of its weight
  std::string module;  // Hugging Face's name
  std::string path;    // of Binade's module

  // "q_proj".
  std::string name() const { return module.substr(module.rfind('.') + 1); }
};

std::vector<LinearTarget> linear_targets(const nn::LanguageModel& model);
// Binade's linear layers by path.
std::map<std::string, nn::Linear*> linears_of(nn::LanguageModel& model);
// Whether `target`, as in LoraOptions::targets, names this module of Hugging Face's.
bool names_module(std::string_view target, std::string_view module);

}  // namespace binade::io
