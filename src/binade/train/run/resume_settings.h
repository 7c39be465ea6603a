#pragma once

#include <string>
#include <vector>

#include "binade/train/config/config.h"

namespace binade::train {

// The settings of a run that is there already.
struct ResumeSettings {
  Config config = Config();
  std::vector<std::string> warnings = {};  // for the user: what was damaged, what has changed
};

// The settings of the run in `folder`, with `options` over them: those of its config.toml or, if
// that is missing or damaged, of the copy in its newest checkpoint that has an undamaged one. The
// tokenizer and the files beside it are the checkpoint's if the run's own are missing or damaged.
// Changes nothing. Fails as resolve() does if there is no copy.
ResumeSettings saved_settings(const io::Path& folder, const Sources::Options& options);

}  // namespace binade::train
