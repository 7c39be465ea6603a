#include "binade/version.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "binade/cli/commands.h"

namespace binade::cli {

void add_version(CLI::App& app) {
  app.set_version_flag("--version", fmt::format("binade {}", version()), "Print the version");
  app.add_subcommand("version", "Print the version")->callback([] {
    fmt::print("binade {}\n", version());
  });
}

}  // namespace binade::cli
