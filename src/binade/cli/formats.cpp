#include "binade/formats/table.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "binade/cli/commands.h"

namespace binade::cli {

void add_formats(CLI::App& app) {
  CLI::App* command = app.add_subcommand("formats", "Print the table of number formats");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print JSON instead of text");
  command->callback(
      [json] { fmt::print("{}", *json ? formats::table_json() : formats::table_text()); });
}

}  // namespace binade::cli
