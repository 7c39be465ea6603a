#pragma once

#include <optional>

#include "binade/data/token_statistics.h"
#include "binade/io/safetensors.h"
#include "binade/io/tensor_statistics.h"

// What is in a file of tensors or tokens, for people and for programs.
namespace binade::train {

struct InspectedTensor {
  std::string file;  // its name
  io::TensorEntry entry;
  io::Statistics numbers;
};

struct Inspection {
  std::string path;
  std::string kind;  // in words
  int64_t bytes = 0;
  std::vector<InspectedTensor> tensors;
  std::optional<data::TokenStatistics> tokens;
};

// Reads a safetensors file, a token file (.bin), or the safetensors files of a folder: a model's, a
// checkpoint's (compared with its manifest first), or those of a run's newest checkpoint. Of
// tensors only those whose names hold `only`.
Inspection inspect(const std::filesystem::path& path, const std::string& only = {});

// A table; with `histogram` the exponents of each floating tensor as bars below it.
std::string inspection_text(const Inspection& inspection, bool histogram);
std::string inspection_json(const Inspection& inspection);

}  // namespace binade::train
