#pragma once

#include "binade/formats/weights/base_format.h"
#include "binade/io/gguf/file.h"
#include "binade/nn/language_model.h"

// Models whose linear layers keep their weights in blocks of few bits while adapters over them are
// trained (QLoRA). Embeddings, norms, biases and the head stay as they are.
namespace binade::io {

// Gives the linear layers of the blocks of a model, which was made without their weights
// (nn::WithoutWeights), uninitialized blocks of one format. Fails for a layer whose rows are not
// whole blocks.
void set_base_format(nn::LanguageModel& model, const formats::BlockFormat& format,
                     nn::Placement placement);
// Blocks of the types that a GGUF file of such a model has. A layer with a tensor of another type
// gets an uninitialized weight. The file's tensors are checked when they are loaded.
void set_base_format(nn::LanguageModel& model, const gguf::File& file, nn::Placement placement);

// Rounds the weights of these layers to the values that set_base_format() and load_weights() would
// leave: for a model that an adapter is merged into.
void round_base(nn::LanguageModel& model, const formats::BlockFormat& format);

}  // namespace binade::io
