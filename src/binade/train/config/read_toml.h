#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "binade/train/config/earlier_activations.h"
#include "binade/train/config/earlier_recipe.h"
#include "binade/train/config/setting.h"

namespace binade::train {

// All settings of a file and the command line.
struct Given {
  std::vector<Setting> settings;
  PrecisionOverrides overrides;
  EarlierKeys earlier;  // of [precision]
  EarlierActivations earlier_activations;
  // Of overrides, by index.
  std::map<size_t, EarlierKeys> earlier_overrides;
};

// Adds the settings in TOML text; `file` is its name in messages. Fails, naming the line, for keys
// that are unknown or of another section.
void read_toml(std::string_view text, const std::string& file, Given& given);

}  // namespace binade::train
