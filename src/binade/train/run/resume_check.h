#pragma once

#include <string>
#include <vector>

#include "binade/train/config/config.h"
#include "binade/train/run/origin.h"

namespace binade::train {

// Whether a run may continue from a checkpoint with other settings, data or arithmetic: its later
// steps would not be those of the uninterrupted run. Fails, naming them, unless
// config.allow_changes does, too. Returns sentences about those that are allowed, for the user.
std::vector<std::string> check_unchanged(const Config& config, const Origin& now,
                                         const data::Tokenizer& tokenizer,
                                         const io::Path& checkpoint);

// The settings in a checkpoint, as TOML, if this run takes other steps with its own; empty: it does
// not.
std::string other_settings_of(const io::Path& checkpoint, const Config& config);

// Fails for names in config.allow_changes that nothing has.
void check_allowed_names(const Config& config);

// Fails about a checkpoint's state that does not fit this run, for which `reason` was given, naming
// the changed settings that explain it; else as `reason`.
[[noreturn]] void refuse_state(const Config& config, const io::Path& checkpoint,
                               const Error& reason);

}  // namespace binade::train
