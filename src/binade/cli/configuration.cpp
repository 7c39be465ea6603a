#include "binade/cli/configuration.h"

#include <CLI/CLI.hpp>

namespace binade::cli {

void add_configuration(CLI::App& command, ConfigArguments& arguments) {
  command.allow_extras();  // reported by name, with the nearest known option
  command.add_option("CONFIG", arguments.file,
                     "TOML file with the same keys in sections: [train] steps = 600. The command "
                     "line wins over it");
  for (const train::Key& key : train::keys()) add_key(command, key, {}, arguments.options);
}

train::Config configuration(const CLI::App& command, const ConfigArguments& arguments) {
  if (const auto extras = command.remaining(); !extras.empty())
    train::refuse_option(extras.front());
  train::Sources sources{arguments.file, *arguments.options};
  // Going on with a run needs nothing but its folder.
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
