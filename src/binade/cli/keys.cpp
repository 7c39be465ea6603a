#include "binade/cli/keys.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "binade/base/terminal.h"

namespace binade::cli {

CLI::Option* add_key(CLI::App& command, const train::Key& key, const train::Config& defaults,
                     const std::shared_ptr<GivenOptions>& given) {
  const std::string option = train::option_name(key), name = option.substr(2), help(key.help),
                    group = "[" + std::string(key.section) + "]";
  if (train::value_name(key).empty()) {
    return command
        .add_flag_callback(
            option, [given, name] { given->emplace_back(name, "true"); }, help)
        ->group(group);
  }
  const auto* list = std::get_if<train::List>(&key.field);
  const std::string alone(list == nullptr ? "" : list->alone);
  const std::string usual = train::value_text(key, defaults);
  // Without a text, CLI11 passes the default on.
  const auto take = [given, name, alone, usual](const std::string& text) {
    given->emplace_back(name, !alone.empty() && text == usual ? alone : text);
  };
  CLI::Option* added = command.add_option_function<std::string>(option, take, help)
                           ->type_name(train::value_name(key))
                           ->default_str(usual)
                           ->group(group);
  if (!alone.empty()) added->expected(0, 1);
  return added;
}

void print_warnings(const std::vector<std::string>& sentences) {
  for (const std::string& text : sentences) terminal::print_warning(text);
}

}  // namespace binade::cli
