#pragma once

#include <filesystem>
#include <vector>

#include "binade/io/linear_targets.h"

// The tensors of an adapter's folder. Not part of the public interface.
namespace binade::io {

// The update of a linear layer: weight [out, in] += scale * b a. Rows of b are those of Hugging
// Face's tensor, which need not be [out, in] itself (Part::transposed).
struct AdapterPart {
  LinearTarget target;
  Tensor a, b;  // [rank, in], [out, rank], of any floating type
  double scale;
};

// The parts of an adapter of a model with these parameters. One error names every missing, surplus
// and misshapen tensor.
std::vector<AdapterPart> read_adapter_parts(const nn::LanguageModel& model,
                                            const std::filesystem::path& folder);

}  // namespace binade::io
