#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "binade/cli/command_facts.h"
#include "binade/cli/commands.h"
#include "binade/version.h"

// `binade man [COMMAND...]`: the manual page of the program or of a command, as mdoc(7).
namespace binade::cli {
namespace {

// Text of a page: a line that begins with a dot or a quote would be a request.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\')
      result += "\\e";
    else if (c == '-')
      result += "\\-";
    else
      result += c == '\n' ? ' ' : c;
  }
  if (result.starts_with('.') || result.starts_with('\'')) result.insert(0, "\\&");
  return result;
}

// A word of a request: in quotes, so that it is not taken for another request.
std::string word(const std::string& text) {
  std::string result = "\"";
  for (const char c : escaped(text)) result += c == '"' ? std::string("\\(dq") : std::string(1, c);
  return result + "\"";
}

// Each sentence on a line of its own, as mdoc wants them.
std::string sentences(std::string text) {
  if (!text.empty() && std::string_view(".!?").find(text.back()) == std::string_view::npos)
    text += '.';
  std::string lines;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = text.find(". ", begin);
    while (end != text.npos && std::isupper(static_cast<unsigned char>(text[end + 2])) == 0)
      end = text.find(". ", end + 1);
    end = end == text.npos ? text.size() : end + 1;
    lines += (lines.empty() ? "" : "\n") + escaped(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

std::string option_item(const OptionFacts& option) {
  std::string item = ".It";
  for (size_t i = 0; i < option.names.size(); ++i)
    item += fmt::format("{} Fl {}", i == 0 ? "" : " ,", word(option.names[i].substr(1)));
  if (!option.value.empty()) item += " Ar " + word(option.value);
  item += "\n" + sentences(option.help) + "\n";
  if (!option.value.empty() && !option.usual.empty())
    item += fmt::format("Default:\n.Li {} .\n", word(option.usual));
  return item;
}

// A list of options, of the command itself and of each section of the configuration.
std::string option_lists(const CommandFacts& command) {
  std::vector<std::string> sections;
  for (const OptionFacts& option : command.options) {
    if (std::find(sections.begin(), sections.end(), option.section) == sections.end())
      sections.push_back(option.section);
  }
  std::string text;
  for (const std::string& section : sections) {
    text += section.empty() ? ".Sh OPTIONS\n" : fmt::format(".Ss {}\n", word(section));
    text += ".Bl -tag -width Ds\n";
    for (const OptionFacts& option : command.options)
      if (option.section == section) text += option_item(option);
    text += ".El\n";
  }
  return text;
}

std::string positional_list(const CommandFacts& command) {
  if (command.positionals.empty()) return {};
  std::string text = ".Bl -tag -width Ds\n";
  for (const OptionFacts& one : command.positionals)
    text += fmt::format(".It Ar {}\n{}\n", word(one.names[0]), sentences(one.help));
  return text + ".El\n";
}

std::string command_list(const CommandFacts& command, const std::string& page) {
  if (command.commands.empty()) return {};
  std::string text = ".Sh COMMANDS\n.Bl -tag -width Ds\n";
  for (const CommandFacts& below : command.commands)
    text += fmt::format(".It Cm {}\n{}\nSee\n.Xr {} 1 .\n", word(below.name), sentences(below.help),
                        page + "-" + below.name);
  return text + ".El\n";
}

std::string page_of(const CommandFacts& command, const std::vector<std::string>& path) {
  const std::string name = fmt::format("{}", fmt::join(path, "-"));
  std::string title = name;
  std::transform(title.begin(), title.end(), title.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  std::string text = fmt::format(".Dd $Mdocdate$\n.Dt {} 1\n.Os Binade {}\n", title, version());
  text += fmt::format(".Sh NAME\n.Nm {}\n.Nd {}\n", word(name), escaped(command.help));
  text += fmt::format(".Sh SYNOPSIS\n.Nm {}\n.Op Ar options\n",
                      word(fmt::format("{}", fmt::join(path, " "))));
  for (const OptionFacts& one : command.positionals) text += ".Ar " + word(one.names[0]) + "\n";
  if (!command.commands.empty()) text += ".Ar command ...\n";
  if (!command.starts.empty())
    text +=
        fmt::format(".Ar {}\n", word(fmt::format("{}", fmt::join(command.starts, "|")) + " ..."));
  text += ".Sh DESCRIPTION\n" + sentences(command.help) + "\n";
  text += positional_list(command) + command_list(command, name) + option_lists(command);
  text +=
      ".Sh EXIT STATUS\n0 on success, 2 for bad input with a message on standard error, 130, 143 "
      "or "
      "129 after\nSIGINT, SIGTERM or SIGHUP, and 124 after a time limit.\n";
  if (path.size() > 1) text += ".Sh SEE ALSO\n.Xr binade 1\n";
  return text;
}

}  // namespace

void add_man(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("man", "Print the manual page of a command, to be read by man -l -");
  auto names = std::make_shared<std::vector<std::string>>();
  command->add_option("COMMAND", *names, "A command, and one of its own; default: the program");
  command->callback([&app, names] {
    CommandFacts facts = facts_of(app);
    std::vector<std::string> path = {facts.name};
    const CLI::App* above = &app;
    for (const std::string& name : *names) {
      const auto below = std::find_if(facts.commands.begin(), facts.commands.end(),
                                      [&](const CommandFacts& one) { return one.name == name; });
      if (below == facts.commands.end()) refuse_command(*above, name);
      path.push_back(name);
      above = above->get_subcommand(name);
      facts = CommandFacts(*below);
    }
    fmt::print("{}", page_of(facts, path));
  });
}

}  // namespace binade::cli
