#pragma once

#include <filesystem>

#include "binade/data/tokenizer.h"
#include "binade/io/model_folder.h"
#include "binade/train/config/config.h"

namespace binade::train {

// The files that travel with a run's model: those of the model to start from, with the tokenizer's
// own instead if it comes from another folder. If the run has a chat format of its own, they tell
// its template and that its end of an answer ends a text. A resumed run has those in its folder.
io::CompanionFiles companions_of(const Config& config, const data::Tokenizer& tokenizer,
                                 const io::Path& run);

}  // namespace binade::train
