#pragma once

#include <filesystem>

#include "binade/io/gguf/format.h"
#include "binade/io/path.h"

namespace binade::io::gguf {

struct SavedAdapter {
  int64_t parameters = 0;
  double alpha = 0;  // as written
};

// Writes the adapter of a folder (io/lora.h) as a file that llama.cpp applies to the model's own
// (llama-cli --lora): names and order of rows are those of gguf::save(). `type`: F32, F16 or BF16.
// The file has one alpha, so other scales of layers (use_rslora, alpha_pattern) are multiplied into
// their second factor. Fails for models that gguf::save() refuses.
SavedAdapter save_adapter(const std::filesystem::path& folder, const Path& path,
                          const TensorType& type);

}  // namespace binade::io::gguf
