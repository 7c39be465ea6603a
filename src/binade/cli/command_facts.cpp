#include "binade/cli/command_facts.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <string_view>

#include "binade/cli/command_line.h"
#include "binade/train/config/keys.h"

namespace binade::cli {
namespace {

// "f32|bf16|8bit", or "TEXT:f32|bf16" of a checked text, as its parts; of "auto|SIZE" not the
// placeholder, which has a capital. None if files may be meant, too.
std::vector<std::string> choices_in(std::string value) {
  if (const size_t checked = value.find(':'); checked != value.npos) value.erase(0, checked + 1);
  if (value.find('|') == value.npos) return {};
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= value.size();) {
    const size_t end = std::min(value.find('|', begin), value.size());
    parts.push_back(value.substr(begin, end - begin));
    begin = end + 1;
  }
  if (std::find(parts.begin(), parts.end(), "FILE") != parts.end()) return {};
  std::erase_if(parts, [](const std::string& part) {
    return std::any_of(part.begin(), part.end(),
                       [](unsigned char c) { return std::isupper(c) != 0; });
  });
  return parts;
}

// The section of the configuration that has this option.
std::string section_of(const std::string& option) {
  for (const train::Key& key : train::keys()) {
    if (train::option_name(key) == option) return "[" + std::string(key.section) + "]";
  }
  return {};
}

OptionFacts facts_of(const CLI::Option& option) {
  OptionFacts facts{.help = option.get_description()};
  for (const std::string& name : option.get_snames()) facts.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) facts.names.push_back("--" + name);
  if (facts.names.empty()) facts.names.push_back(option.get_name());
  if (option.get_items_expected_max() > 0) facts.value = option.get_type_name();
  facts.choices = choices_in(facts.value);
  facts.usual = option.get_default_str();
  facts.section = section_of(facts.names.back());
  if (!option.get_positional())
    for (std::string& name : other_names_of(option)) facts.names.push_back(std::move(name));
  return facts;
}

}  // namespace

CommandFacts facts_of(const CLI::App& app) {
  const bool is_program = app.get_parent() == nullptr;
  CommandFacts facts{.name = is_program ? "binade" : app.get_name(), .help = app.get_description()};
  for (const CLI::Option* option : app.get_options())
    (option->get_positional() ? facts.positionals : facts.options).push_back(facts_of(*option));
  for (const CLI::App* command : app.get_subcommands({}))
    facts.commands.push_back(facts_of(*command));
  if (app.get_prefix_command()) facts.starts = {"train", "reproduce"};
  // Of `help` and `man`.
  for (OptionFacts& positional : facts.positionals) {
    if (positional.names.front() != "COMMAND" || is_program) continue;
    for (const CLI::App* command : app.get_parent()->get_subcommands({}))
      positional.choices.push_back(command->get_name());
  }
  return facts;
}

}  // namespace binade::cli
