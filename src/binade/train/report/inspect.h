#pragma once

#include <optional>

#include "binade/data/token_statistics.h"
#include "binade/io/safetensors.h"
#include "binade/io/tensor_statistics.h"

// Statistics of tensor and token files.
namespace binade::train {

struct InspectedTensor {
  std::string file;  // its name
  io::TensorEntry entry;
  io::Statistics numbers;
};

// A key of a GGUF file.
struct InspectedKey {
  std::string name;
  std::string value;  // in words; long texts are cut
};

struct Inspection {
  std::string path;
  std::vector<std::string> notes = {};  // checkpoints that were passed over, and why
  std::string kind;                     // a description
  int64_t bytes = 0;
  std::vector<InspectedKey> keys = {};
  std::vector<InspectedTensor> tensors;
  std::optional<data::TokenStatistics> tokens;
};

// Reads a safetensors file, a GGUF file (of blocks, the numbers they decode to; none of types that
// Binade does not decode), a token file (.bin), or the safetensors files of a folder: a model's, a
// checkpoint's (verified against its manifest first), or those of a run's newest checkpoint. Of the
// tensors, only those whose names contain `only`.
Inspection inspect(const std::filesystem::path& path, const std::string& only = {});

// A table; with `histogram`, a histogram of exponents below each floating-point tensor.
std::string inspection_text(const Inspection& inspection, bool histogram);
std::string inspection_json(const Inspection& inspection);

}  // namespace binade::train
