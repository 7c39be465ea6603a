#pragma once

#include "binade/train/config/config.h"

namespace binade::train {

// The configuration of sources with a cure of the doctor: a TOML file that overrides the sources'
// file, and that options override.
Config resolve_cured(const Sources& sources, const io::Path& cure);

}  // namespace binade::train
