#pragma once

#include <string>

namespace binade::cli {

struct Outcome {
  int status = -1;  // exit code; -1 when a signal ended the command
  std::string out;
  std::string err;
};

// Runs a line of shell and returns what it printed.
Outcome run_shell(const std::string& line);

// Runs the program with these words of shell as its arguments.
Outcome binade(const std::string& arguments);

// The same on a terminal of that width, which gets both streams; `environment` such as
// "NO_COLOR=1".
Outcome binade_on_terminal(const std::string& arguments, int columns,
                           const std::string& environment = {});

// `text` as one word of shell.
std::string quoted(const std::string& text);

}  // namespace binade::cli
