#pragma once

#include <functional>

#include "binade/io/huggingface.h"
#include "binade/io/weight_formats.h"

namespace binade::io {

struct ConvertOptions {
  std::optional<DType> dtype;  // of the weights; none: as they are stored
  bool force = false;          // replace an existing model
  // Linear layers in a format of few bits, in the layout of the compressed-tensors package. Codes
  // are made from the stored weights in f32; `dtype` is that of the other tensors.
  WeightFormatOptions weights = {};
  // Adds files to the new folder before it is put in place.
  std::function<void(const std::filesystem::path& folder)> complete = {};
};

struct Converted {
  int64_t parameters = 0;
  DType dtype = DType::f32;
};

// Reads a model's directory (in one file or in shards, names with or without prefixes) and writes
// it as one that transformers loads and generates with: config.json, model.safetensors,
// the tokenizer's files and the companions (model_folder.h). Refuses weights that are non-finite in
// the new type and, unless forced, a target that holds a model; nothing is changed then. The target
// gets its name once it is complete and on disk; other files of an older folder stay in it.
Converted convert_pretrained(const std::filesystem::path& from, const std::filesystem::path& to,
                             const ConvertOptions& options = {});

// Writes the adapter of a folder (lora.h) as one that the PEFT package loads, with the tokenizer's
// files and the companions; otherwise as convert_pretrained.
Converted convert_adapter(const std::filesystem::path& from, const std::filesystem::path& to,
                          const ConvertOptions& options = {});

}  // namespace binade::io
