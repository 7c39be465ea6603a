#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "binade/base/error.h"
#include "binade/base/suggestion.h"
#include "binade/cli/command_line.h"
#include "binade/cli/commands.h"

namespace binade::cli {
namespace {

const CLI::App* find_command(const CLI::App& app, const std::string& name) {
  for (const CLI::App* command : app.get_subcommands({})) {
    if (command->get_name() == name) return command;
  }
  return nullptr;
}

}  // namespace

void refuse_command(const CLI::App& app, const std::string& given) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  const std::string likely = likely_name(given, names), help = full_name(app) + " --help'";
  if (given == "tokenize-parquet")
    fail("tokenize-parquet", {.argument = "the program",
                              .expected = "the command of the Python package",
                              .found = "binade by itself",
                              .hint = "pip install binade pyarrow; python -m binade " + given});
  throw CLI::ExtrasError(
      fmt::format("There is no command '{}'; {}", given,
                  likely.empty() ? "see '" + help
                                 : fmt::format("did you mean '{}'? See '{}", likely, help)),
      CLI::ExitCodes::ExtrasError);
}

void add_help(CLI::App& app) {
  CLI::App* command = app.add_subcommand("help", "Print the help of a command, or this");
  auto names = std::make_shared<std::vector<std::string>>();
  command->add_option("COMMAND", *names,
                      "A command, and one of its own; default: the list of them");
  command->callback([&app, names] {
    const CLI::App* described = &app;
    for (const std::string& name : *names) {
      const CLI::App* parent = described;
      described = find_command(*parent, name);
      if (described == nullptr) refuse_command(*parent, name);
    }
    // App::help of `app` would describe "help", the command that was parsed.
    fmt::print("{}", described == &app ? app.get_formatter()->make_help(&app, app.get_name(),
                                                                        CLI::AppFormatMode::Normal)
                                       : described->help(app.get_name()));
  });
}

}  // namespace binade::cli
