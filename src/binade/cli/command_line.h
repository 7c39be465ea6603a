#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

namespace binade::cli {

// Refuses what was typed if the commands of `app` do not take it: unknown commands and options,
// each with the one that was probably meant, options without their value or given twice, words too
// many or too few. CLI11 would speak of them out of order and in its own words. `words` are those
// after the program's name. A line that asks for help is accepted.
void check_command_line(const CLI::App& app, const std::vector<std::string>& words);

// "binade tokenize train": the command with those above it.
std::string full_name(const CLI::App& command);

}  // namespace binade::cli
