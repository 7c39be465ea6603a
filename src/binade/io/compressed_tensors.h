#pragma once

#include "binade/io/huggingface.h"
#include "binade/io/weight_formats.h"

// Weights of few bits in the layout of the compressed-tensors package, which transformers and vLLM
// read. Not part of the public interface.
namespace binade::io {

// A model's weights under Hugging Face's names, those of the options' format as codes and scales,
// which are made from the weights in their own type, and the others as to_huggingface() has them.
// Fails for a format of other files, and for models whose linear layers are not
// transformers' Linear (gpt2).
StateDict compressed_weights(nn::LanguageModel& model, const WeightFormatOptions& options);

// config.json with its quantization_config. `dtype`: of the weights that are not compressed.
void write_compressed_config(const Path& path, nn::LanguageModel& model,
                             const WeightFormatOptions& options, DType dtype);

}  // namespace binade::io
