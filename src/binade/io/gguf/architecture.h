#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "binade/io/huggingface_parts.h"

// How GGUF files name and arrange the weights of the model families.
namespace binade::io::gguf {

struct Architecture {
  std::string_view name;      // of general.architecture
  std::string_view family;    // model_type of Hugging Face
  std::string_view norm_key;  // without the architecture
  // Rows of q and k are stored for rotations of adjacent channels.
  bool interleaves_rope = false;
  // A tied head is stored a second time.
  bool needs_output = false;
  // Projections may have biases that the family usually lacks.
  bool optional_bias = false;
};

const std::vector<Architecture>& architectures();
// Null if there is none.
const Architecture* find_architecture(std::string_view name);
// The one that a model is written as. Fails if there is none.
const Architecture& architecture_of(const nn::LanguageModelConfig& config);

inline constexpr std::string_view rope_divisors = "rope_freqs.weight";
inline constexpr std::string_view output_weight = "output.weight";
inline constexpr std::string_view embedding_weight = "token_embd.weight";

// A tensor of a file as a part of one of Binade's parameters.
struct NamedPart {
  std::string name;
  Part part;
  int64_t interleaved_heads = 0;  // 0: rows are in Binade's order
  bool plus_one = false;          // the file holds 1 + w, the parameter w
};

// All tensors of a model with these parameters, in the order they are written.
std::vector<NamedPart> named_parts(const Architecture& architecture,
                                   const nn::LanguageModelConfig& config,
                                   const StateDict& parameters);

// A view of a parameter's rows with the elements in the file's order. That of interleaved rows has
// an axis each for heads, pairs of channels, the two of a pair, and the rest.
Tensor view_of(const StateDict& parameters, const NamedPart& part);
Shape file_shape(const StateDict& parameters, const NamedPart& part);

}  // namespace binade::io::gguf
