#pragma once

#include "binade/io/linear_targets.h"
#include "binade/io/weight_formats.h"

// Not part of the public interface.
namespace binade::io {

// The linear layers of the blocks that a file holds in the format, which must be known. The checks
// of set_weight_format().
std::vector<LinearTarget> formatted_targets(nn::LanguageModel& model,
                                            const WeightFormatOptions& options);

}  // namespace binade::io
