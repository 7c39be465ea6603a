#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

// What a command line accepts, as data: completions and man pages are written from it.
namespace binade::cli {

struct OptionFacts {
  // "-n", "--ranks", then those of other programs (command_line.h); of a positional "RUN".
  std::vector<std::string> names;
  std::string value;                 // placeholder; empty: takes none
  std::string usual;                 // its default as text; empty: none to tell
  std::vector<std::string> choices;  // texts that the value may have; empty: any
  std::string help;
  std::string section;  // "[train]"; empty: not of the configuration
};

struct CommandFacts {
  std::string name;  // "train"; of the program "binade"
  std::string help;
  std::vector<OptionFacts> options, positionals;
  std::vector<CommandFacts> commands;
  std::vector<std::string> starts;  // of `launch`: the commands that may follow with their words
};

// Of the program, with all commands below it and every option, also those that --help leaves out.
CommandFacts facts_of(const CLI::App& app);

}  // namespace binade::cli
