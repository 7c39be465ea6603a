#include "binade/cli/configuration.h"

#include <CLI/CLI.hpp>

namespace binade::cli {

void add_configuration(CLI::App& command, const std::shared_ptr<ConfigArguments>& arguments) {
  command.allow_extras();  // reported by name, with the nearest known option
  command.add_option("CONFIG", arguments->file,
                     "TOML file with the same keys in sections: [train] steps = 600. The command "
                     "line wins over it");
  const train::Config defaults;
  for (const train::Key& key : train::keys()) {
    const std::string option = train::option_name(key), name = option.substr(2), help(key.help),
                      group = "[" + std::string(key.section) + "]";
    if (train::value_name(key).empty()) {
      command
          .add_flag_callback(
              option, [arguments, name] { arguments->options.emplace_back(name, "true"); }, help)
          ->group(group);
      continue;
    }
    const auto take = [arguments, name](const std::string& text) {
      arguments->options.emplace_back(name, text);
    };
    command.add_option_function<std::string>(option, take, help)
        ->type_name(train::value_name(key))
        ->default_str(train::value_text(key, defaults))
        ->group(group);
  }
}

train::Config configuration(const CLI::App& command, const ConfigArguments& arguments) {
  if (const auto extras = command.remaining(); !extras.empty())
    train::refuse_option(extras.front());
  train::Sources sources{arguments.file, arguments.options};
  // Going on with a run needs nothing but its folder.
  bool resume = false;
  std::string out;
  for (const auto& [name, text] : arguments.options) {
    resume |= name == "resume";
    if (name == "out") out = text;
  }
  if (resume && sources.file.empty() && !out.empty()) sources.file = out + "/config.toml";
  return train::resolve(sources);
}

}  // namespace binade::cli
