#pragma once

#include <CLI/App.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "binade/train/config.h"

namespace binade::cli {

// A training configuration as a command line gives it: a file and options that win over it.
struct ConfigArguments {
  std::string file;
  std::vector<std::pair<std::string, std::string>> options;
};

// Adds CONFIG and one option for each key of the configuration.
void add_configuration(CLI::App& command, const std::shared_ptr<ConfigArguments>& arguments);

// The whole configuration. Options that are not known are refused by name, so `command` must allow
// extras.
train::Config configuration(const CLI::App& command, const ConfigArguments& arguments);

}  // namespace binade::cli
