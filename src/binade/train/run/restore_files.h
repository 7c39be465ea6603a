#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "binade/io/model_folder.h"

// Files of a run's folder that are written anew, from a checkpoint's copies, if they are damaged.
namespace binade::train {

inline constexpr const char* precision_plan_file = "precision_plan.json";

// Gives config.toml, if it cannot be read, and the tokenizer's files, if they differ from these,
// other names (io::set_aside). Returns whether any is damaged or missing.
bool set_damaged_aside(const io::Path& folder, std::string_view tokenizer,
                       const io::CompanionFiles& companions);

// Takes precision_plan.json from the checkpoint, if that has one: it is the plan of its step.
// Returns a warning if the run's own was damaged. Fails if it is and there is no copy.
std::vector<std::string> restore_plan(const io::Path& folder, const io::Path& checkpoint);

}  // namespace binade::train
