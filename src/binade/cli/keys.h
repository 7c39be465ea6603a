#pragma once

#include <CLI/App.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "binade/train/config/keys.h"

namespace binade::cli {

// Options from the command line: name without dashes, text.
using GivenOptions = std::vector<std::pair<std::string, std::string>>;

// Adds the option of one key of the configuration, which appends to `given`; --help shows its value
// in `defaults`.
CLI::Option* add_key(CLI::App& command, const train::Key& key, const train::Config& defaults,
                     const std::shared_ptr<GivenOptions>& given);

// Prints sentences about settings (train/config/warnings.h) to stderr, which may be closed.
void print_warnings(const std::vector<std::string>& sentences);

}  // namespace binade::cli
