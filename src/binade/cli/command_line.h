#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

namespace binade::cli {

// Refuses what was typed if the commands of `app` do not take it: unknown commands and options,
// each with the one that was probably meant, options without their value or given twice, words too
// many or too few. CLI11 would speak of them out of order and in its own words. `words` are those
// after the program's name. A line that asks for help is accepted. Returns the words with
// Binade's own names of options in place of others that it accepts.
std::vector<std::string> check_command_line(const CLI::App& app, std::vector<std::string> words);

// The names of other programs that an option is accepted by: "--learning-rate" of --lr.
std::vector<std::string> other_names_of(const CLI::Option& option);

// The command in messages: "tokenize train".
std::string title(const CLI::App& command);

// "binade tokenize train": the command with those above it.
std::string full_name(const CLI::App& command);

}  // namespace binade::cli
