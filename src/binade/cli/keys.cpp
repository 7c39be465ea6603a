#include "binade/cli/keys.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "binade/base/terminal.h"

namespace binade::cli {

void add_key(CLI::App& command, const train::Key& key, const train::Config& defaults,
             const std::shared_ptr<GivenOptions>& given) {
  const std::string option = train::option_name(key), name = option.substr(2), help(key.help),
                    group = "[" + std::string(key.section) + "]";
  if (train::value_name(key).empty()) {
    command
        .add_flag_callback(
            option, [given, name] { given->emplace_back(name, "true"); }, help)
        ->group(group);
    return;
  }
  const auto take = [given, name](const std::string& text) { given->emplace_back(name, text); };
  command.add_option_function<std::string>(option, take, help)
      ->type_name(train::value_name(key))
      ->default_str(train::value_text(key, defaults))
      ->group(group);
}

void print_warnings(const std::vector<std::string>& sentences) {
  const std::string label =
      terminal::styled("warning:", terminal::Style::yellow, terminal::has_color(stderr));
  for (const std::string& text : sentences)
    std::fputs(fmt::format("binade: {} {}\n", label, text).c_str(), stderr);
}

}  // namespace binade::cli
