#include "binade/cli/configuration.h"

#include <CLI/CLI.hpp>

namespace binade::cli {

void add_configuration(CLI::App& command, ConfigArguments& arguments) {
  command.allow_extras();  // refused below by name, with the nearest known option
  command.add_option(
      "CONFIG", arguments.file,
      "TOML file with the same keys in sections, such as [train] steps = 1600; options "
      "override it");
  for (const train::Key& key : train::keys()) add_key(command, key, {}, arguments.options);
}

train::Config configuration(const CLI::App& command, const ConfigArguments& arguments,
                            GivenOptions defaults) {
  if (const auto extras = command.remaining(); !extras.empty())
    train::refuse_option(extras.front());
  train::Sources sources{arguments.file, *arguments.options, std::move(defaults)};
  // The run's folder is enough to resume it.
  bool resume = false;
  std::string out;
  for (const auto& [name, text] : *arguments.options) {
    resume |= name == "resume";
    if (name == "out") out = text;
  }
  if (resume && sources.file.empty() && !out.empty()) sources.file = out + "/config.toml";
  return train::resolve(sources);
}

}  // namespace binade::cli
