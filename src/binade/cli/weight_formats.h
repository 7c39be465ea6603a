#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "binade/io/weight_formats.h"

namespace binade::cli {

// Adds an option that takes a weight format, and --head and --exclude.
CLI::Option* add_weight_format(CLI::App& command, const std::string& option,
                               const std::string& help,
                               const std::shared_ptr<io::WeightFormatOptions>& options);

// Adds --head and --exclude, which say what else is or is not in the format.
void add_weight_parts(CLI::App& command, io::WeightFormatOptions& options);

// The [qat] settings of the run that a checkpoint belongs to; no format if there are none.
io::WeightFormatOptions trained_weight_format(const std::filesystem::path& checkpoint);

}  // namespace binade::cli
