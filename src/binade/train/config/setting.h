#pragma once

#include <string>
#include <variant>
#include <vector>

#include "binade/train/config/keys.h"

namespace binade::train {

// Values as files and the command line give them.

// Of unknown names, messages show this many characters.
inline constexpr size_t max_name = 80;

using Texts = std::vector<std::string>;
using Value = std::variant<bool, int64_t, double, std::string, Texts>;

// A value from a file or the command line, and its origin: "--lr" or
// "run.toml, line 3: [train] lr". Of a number on the command line, also as it was typed.
struct Setting {
  const Key* key;
  Value value;
  std::string where;
  std::string typed = {};
};

// "\"text\"", "1000.0", "an array".
std::string in_words(const Value& value);
// Writes a setting into its field. Fails, naming the setting, if its key takes no such value.
void apply(const Setting& setting, Config& config);
// The content of a recipe's file.
std::string read_recipe_file(const std::string& path);

}  // namespace binade::train
