#pragma once

#include <string>
#include <vector>

#include "binade/io/path.h"

namespace binade::train {

// The settings that a run had before it was resumed with others: its first steps are repeated by
// them.
struct EarlierSettings {
  int64_t last = 0;  // step that was taken with them
  std::string toml;
};

// Their file in a run's folder, config-to-step-N.toml.
std::string earlier_name(int64_t last);

// Those of a run's folder, oldest first.
std::vector<EarlierSettings> read_earlier_settings(const io::Path& run);

// Of a run that continues after step `last`: forgets settings of that and later steps, and notes
// `toml`, those of the checkpoint that it continues from, unless that is empty.
void note_earlier_settings(const io::Path& run, const EarlierSettings& settings);

}  // namespace binade::train
