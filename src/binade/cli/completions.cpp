#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "binade/cli/command_facts.h"
#include "binade/cli/commands.h"
#include "binade/cli/values.h"

// `binade completions bash|zsh|fish`: a script that completes commands, options and their values.
namespace binade::cli {
namespace {

// A text in single quotes, for any of the three shells; `escape` stands for a quote in it.
std::string quoted(const std::string& text, const char* escape) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string(escape) : std::string(1, c);
  return result + "'";
}

// Calls write(path, command) for the program and all commands below it: "binade bench step".
template <class Write>
void for_each_command(const CommandFacts& command, const std::string& above, const Write& write) {
  const std::string path = above.empty() ? command.name : above + " " + command.name;
  write(path, command);
  for (const CommandFacts& below : command.commands) for_each_command(below, path, write);
}

// What the words after a command, which are no options, may be; empty: anything.
std::vector<std::string> choices_of_words(const CommandFacts& command) {
  return command.positionals.empty() ? std::vector<std::string>()
                                     : command.positionals.front().choices;
}

std::string words(const CommandFacts& command) {
  std::string all;
  for (const CommandFacts& below : command.commands) all += below.name + " ";
  for (const OptionFacts& option : command.options)
    for (const std::string& name : option.names) all += name + " ";
  for (const std::string& choice : choices_of_words(command)) all += choice + " ";
  for (const std::string& start : command.starts) all += start + " ";
  return all;
}

// Options of a command that take a value: those with choices by case, the others as files.
std::string bash_values(const CommandFacts& command) {
  std::string cases, others;
  for (const OptionFacts& option : command.options) {
    if (option.value.empty()) continue;
    const std::string names = fmt::format("{}", fmt::join(option.names, "|"));
    if (option.choices.empty())
      others += (others.empty() ? "" : "|") + names;
    else
      cases += fmt::format("        {}) _binade_words {}; return ;;\n", names,
                           quoted(fmt::format("{}", fmt::join(option.choices, " ")), ""));
  }
  if (!others.empty()) cases += fmt::format("        {}) _binade_files; return ;;\n", others);
  return cases;
}

std::string bash_script(const CommandFacts& program) {
  std::string commands, started, cases;
  for_each_command(program, "", [&](const std::string& path, const CommandFacts& command) {
    for (const CommandFacts& below : command.commands)
      commands += fmt::format("{}'{} {}'", commands.empty() ? "" : "|", path, below.name);
    for (const std::string& start : command.starts)
      started += fmt::format("{}'{} {}'", started.empty() ? "" : "|", path, start);
    const std::string values = bash_values(command);
    cases += fmt::format("    '{}')\n", path);
    if (!values.empty()) cases += "      case $previous in\n" + values + "      esac\n";
    cases += fmt::format("      _binade_words '{}' ;;\n", words(command));
  });
  return "# Completion of binade for bash: source <(binade completions bash)\n"
         "_binade_files() { compopt -o default 2>/dev/null; COMPREPLY=(); }\n"
         "_binade_words() {\n"
         "  mapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$current\")\n"
         "  ((${#COMPREPLY[@]})) || [[ $current == -* ]] || _binade_files\n"
         "}\n"
         "_binade() {\n"
         "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
         "  local path=binade word\n"
         "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
         "    case \"$path $word\" in\n"
         "      " +
         started +
         ") path=\"binade $word\" ;;\n"
         "      " +
         commands +
         ") path=\"$path $word\" ;;\n"
         "    esac\n"
         "  done\n"
         "  case $path in\n" +
         cases +
         "  esac\n"
         "}\n"
         "complete -F _binade binade\n";
}

// The first sentence or so, which menus have room for.
std::string short_help(const std::string& help) {
  const size_t end = std::min(help.find_first_of(";:\n"), help.size());
  return help.substr(0, end);
}

std::string zsh_option(const OptionFacts& option, const std::string& name) {
  std::string help;
  for (const char c : short_help(option.help)) {
    if (c == '[' || c == ']' || c == '\\') help += '\\';
    help += c;
  }
  std::string spec = fmt::format("{}[{}]", name, help);
  if (!option.choices.empty())
    spec += fmt::format(":value:({})", fmt::join(option.choices, " "));
  else if (!option.value.empty())
    spec += ":value:_files";
  return "    " + quoted(spec, "'\\''");
}

std::string zsh_function(const std::string& path) {
  std::string name = "_" + path;
  std::replace(name.begin(), name.end(), ' ', '_');
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

// Of a command that starts another one: completes that one's words as its own.
std::string zsh_start(const std::string& specs, const CommandFacts& command) {
  std::string cases;
  for (const std::string& start : command.starts)
    cases += fmt::format("      {}) {} ;;\n", start, zsh_function("binade " + start));
  return fmt::format(
      "  local state line\n  _arguments -C{} \\\n    '1:command:({})' '*::argument:->argument'\n"
      "  [[ $state == argument ]] || return\n  case $line[1] in\n{}  esac\n",
      specs, fmt::join(command.starts, " "), cases);
}

std::string zsh_script(const CommandFacts& program) {
  std::string functions;
  for_each_command(program, "", [&](const std::string& path, const CommandFacts& command) {
    std::string specs;
    for (const OptionFacts& option : command.options)
      for (const std::string& name : option.names) specs += " \\\n" + zsh_option(option, name);
    if (!command.starts.empty()) {
      functions += fmt::format("{}() {{\n{}}}\n", zsh_function(path), zsh_start(specs, command));
      return;
    }
    if (command.commands.empty()) {
      const std::vector<std::string> choices = choices_of_words(command);
      const std::string rest =
          choices.empty() ? "file:_files" : fmt::format("value:({})", fmt::join(choices, " "));
      functions += fmt::format("{}() {{\n  _arguments{} \\\n    '*:{}'\n}}\n", zsh_function(path),
                               specs, rest);
      return;
    }
    std::string names, cases;
    for (const CommandFacts& below : command.commands) {
      std::string help;  // a colon would end the name
      for (const char c : short_help(below.help)) help += c == ':' ? ' ' : c;
      names += "    " + quoted(below.name + ":" + help, "'\\''") + "\n";
      cases +=
          fmt::format("        {}) {} ;;\n", below.name, zsh_function(path + " " + below.name));
    }
    functions += fmt::format(
        "{}() {{\n  local state line\n  local -a commands=(\n{}  )\n  _arguments -C{} \\\n"
        "    '1:command:->command' '*::argument:->argument'\n  case $state in\n"
        "    command) _describe command commands ;;\n    argument)\n      case $line[1] in\n{}"
        "      esac ;;\n  esac\n}}\n",
        zsh_function(path), names, specs, cases);
  });
  return "#compdef binade\n# Completion of binade for zsh: a file _binade in a folder of $fpath, "
         "or\n"
         "# source <(binade completions zsh) after compinit\n" +
         functions +
         "if [[ $funcstack[1] == _binade ]]; then _binade \"$@\"; else compdef _binade binade; "
         "fi\n";
}

// When a fish completion of this command applies: all its words were typed, and no command of its
// own.
std::string fish_condition(const std::string& path, const CommandFacts& command) {
  std::string condition;
  const std::string above = path.substr(std::min(path.find(' ') + 1, path.size()));
  if (path.find(' ') != path.npos) {
    std::string word;
    for (size_t begin = 0; begin <= above.size();) {
      const size_t end = std::min(above.find(' ', begin), above.size());
      condition += fmt::format("{}__fish_seen_subcommand_from {}",
                               condition.empty() ? "" : "; and ", above.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  if (command.commands.empty()) return condition;
  std::string names;
  for (const CommandFacts& below : command.commands) names += " " + below.name;
  return fmt::format("{}not __fish_seen_subcommand_from{}",
                     condition.empty() ? "" : condition + "; and ", names);
}

std::string fish_script(const CommandFacts& program) {
  std::string script =
      "# Completion of binade for fish: binade completions fish > "
      "~/.config/fish/completions/binade.fish\n";
  for_each_command(program, "", [&](const std::string& path, const CommandFacts& command) {
    const std::string when = quoted(fish_condition(path, command), "\\'");
    for (const CommandFacts& below : command.commands)
      script += fmt::format("complete -c binade -f -n {} -a {} -d {}\n", when, below.name,
                            quoted(short_help(below.help), "\\'"));
    if (const std::vector<std::string> choices = choices_of_words(command); !choices.empty())
      script += fmt::format("complete -c binade -f -n {} -a '{}'\n", when, fmt::join(choices, " "));
    if (!command.starts.empty()) {
      const std::string names = fmt::format("{}", fmt::join(command.starts, " "));
      script += fmt::format(
          "complete -c binade -f -n '{}; and not __fish_seen_subcommand_from {}' -a '{}'\n",
          fish_condition(path, command), names, names);
    }
    for (const OptionFacts& option : command.options) {
      std::string line = "complete -c binade -n " + when;
      for (const std::string& name : option.names)
        line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (!option.value.empty()) line += " -r";
      if (!option.choices.empty())
        line += fmt::format(" -f -a '{}'", fmt::join(option.choices, " "));
      script += line + " -d " + quoted(short_help(option.help), "\\'") + "\n";
    }
  });
  return script;
}

}  // namespace

void add_completions(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "completions", "Print a script that completes commands and options in a shell");
  auto shell = std::make_shared<std::string>();
  command->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->type_name("bash|zsh|fish")
      ->check(one_of({"bash", "zsh", "fish"}));
  command->callback([&app, shell] {
    const CommandFacts program = facts_of(app);
    fmt::print("{}", *shell == "bash"  ? bash_script(program)
                     : *shell == "zsh" ? zsh_script(program)
                                       : fish_script(program));
  });
}

}  // namespace binade::cli
