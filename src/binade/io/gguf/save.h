#pragma once

#include <functional>

#include "binade/io/gguf/writer.h"
#include "binade/io/weight_formats.h"
#include "binade/nn/language_model.h"

namespace binade::io::gguf {

struct SaveOptions {
  // Of the matrices; norms, biases and learned positions stay F32. For 4-bit types the head is
  // Q6_K. Rows that no block of a type divides are in the next one of Q6_K, Q8_0 and F16.
  const TensorType* type = nullptr;  // null: F32
  // Of a model that was trained with its weights rounded (set_weight_format): the layers that were,
  // and no other matrices, have `type`; others, which the forward read as they are, are F16.
  WeightFormatOptions trained = {};
  // Adds the keys of the tokenizer (data/tokenizer_json/to_gguf.h).
  std::function<void(Writer&)> add_tokenizer = {};
};

// Fails, naming it, for a model with something that GGUF's keys cannot say or llama.cpp does not
// read: a window of Mistral's or Qwen's, other scores of Gemma, llama3 scaling of another
// architecture.
void check_exportable(const nn::LanguageModelConfig& config);

// Writes a model as llama.cpp reads it; without a name, by which llama.cpp would guess special
// tokens that another tokenizer lacks. Replaces the file atomically.
void save(const nn::LanguageModel& model, const Path& path, const SaveOptions& options);

}  // namespace binade::io::gguf
