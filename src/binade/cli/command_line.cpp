#include "binade/cli/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <optional>

#include "binade/base/error.h"
#include "binade/base/suggestion.h"
#include "binade/base/text.h"
#include "binade/cli/commands.h"
#include "binade/cli/configuration.h"
#include "binade/train/config/aliases.h"
#include "binade/train/config/keys.h"

namespace binade::cli {
namespace {

using Words = std::vector<std::string>;

// Messages show this many characters of an unknown option.
constexpr size_t max_word = 80;

// An option as it was typed: "--steps=3" is {"--steps", "3"}, "-n4" is {"-n", "4"}.
struct Typed {
  std::string name;
  std::optional<std::string> value;
};

Typed split(const std::string& word) {
  if (!word.starts_with("--"))
    return {word.substr(0, 2), word.size() > 2 ? std::optional(word.substr(2)) : std::nullopt};
  const size_t equals = word.find('=');
  if (equals == std::string::npos) return {word, {}};
  return {word.substr(0, equals), word.substr(equals + 1)};
}

// A dash alone, and a number, are values.
bool looks_like_option(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && !is_ascii_digit(word[1]) && word[1] != '.';
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }
bool takes_list(const CLI::Option& option) {
  return option.get_items_expected_max() >= CLI::detail::expected_max_vector_size;
}

std::vector<const CLI::Option*> positionals(const CLI::App& command) {
  return command.get_options([](const CLI::Option* option) { return option->get_positional(); });
}

std::string dashed(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

std::string see_help(const CLI::App& command) {
  return fmt::format("see '{} --help'", full_name(command));
}

// Dashes that texts and web pages have in place of "--": en dash, em dash, minus sign.
bool begins_with_another_dash(const std::string& word) {
  return word.starts_with("\u2013") || word.starts_with("\u2014") || word.starts_with("\u2212");
}

// The option of a command that another name stands for; null if there is none.
const CLI::Option* find_by_other_name(const CLI::App& command, const std::string& typed) {
  if (!typed.starts_with("--")) return nullptr;
  for (const CLI::Option* option : command.get_options()) {
    const auto names = other_names_of(*option);
    if (std::find(names.begin(), names.end(), dashed(typed)) != names.end()) return option;
  }
  return nullptr;
}

std::string suggestion(const CLI::App& command, const std::string& typed) {
  std::string name = typed.substr(std::min(typed.find_first_not_of('-'), typed.size()));
  Words known;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& one : option->get_lnames()) known.push_back(one);
    for (const std::string& one : other_names_of(*option)) known.push_back(one.substr(2));
  }
  std::replace(name.begin(), name.end(), '-', '_');
  std::string own(train::own_name(name));
  std::replace(own.begin(), own.end(), '_', '-');
  std::replace(name.begin(), name.end(), '_', '-');
  const bool is_known = std::find(known.begin(), known.end(), own) != known.end();
  if (!is_known && (own == "ranks" || name == "ranks" || name == "n") &&
      command.get_name() == "train")
    return fmt::format("did you mean '{} launch -n 4 train'?", full_name(*command.get_parent()));
  if (!is_known) own = typed.starts_with("--") ? likely_name(name, known) : std::string();
  if (own.empty()) return {};
  if (const CLI::Option* option = find_by_other_name(command, "--" + own))
    own = option->get_lnames().back();
  return fmt::format("did you mean --{}?", own);
}

// "--steps" for "-steps" and "steps", if the command has that option; else nothing.
std::string with_dashes(const CLI::App& command, const std::string& word) {
  const std::string name = "--" + word.substr(std::min(word.find_first_not_of('-'), word.size()));
  const bool is_known = name.size() > 3 && (command.get_option_no_throw(name) != nullptr ||
                                            find_by_other_name(command, name) != nullptr);
  return is_known ? name : "";
}

[[noreturn]] void refuse_option(const CLI::App& command, const std::string& typed) {
  if (const auto now = train::replacement_of(typed))
    fail(title(command), {.argument = shortened(typed, max_word),
                          .expected = *now,
                          .found = "the option of an earlier version"});
  const std::string advice = suggestion(command, typed);
  fail(title(command),
       {.argument = shortened(typed, max_word),
        .expected = "a known option",
        .found = "none of that name",
        .hint = advice.empty() ? see_help(command)
                               : fmt::format("{} See '{} --help'", advice, full_name(command))});
}

// Walks over the words of one command line.
class CommandLine {
 public:
  CommandLine(const CLI::App& app, Words words) : command_(&app), words_(std::move(words)) {}

  // The words, with the names of options that are Binade's own.
  const Words& words() const { return words_; }

  void check() {
    for (; at_ < words_.size() && !done_; ++at_) {
      const std::string& word = words_[at_];
      if (!ended_ && word == "--")
        ended_ = true;
      else if (!ended_ && looks_like_option(word))
        take_option(split(word));
      else if (!take_command(word))
        take_word(word);
    }
    if (!done_) require_all();
  }

 private:
  void take_option(Typed typed) {
    const CLI::Option* option = command_->get_option_no_throw(typed.name);
    if (option == nullptr) {
      option = find_by_other_name(*command_, typed.name);
      if (option == nullptr) {
        const std::string& word = words_[at_];
        if (const std::string meant = with_dashes(*command_, word);
            !word.starts_with("--") && !meant.empty())
          refuse(word, meant, "it with one dash");
        refuse_option(*command_, typed.name);
      }
      typed.name = "--" + option->get_lnames().back();
      words_[at_] = typed.name + (typed.value ? "=" + *typed.value : "");
    }
    const bool is_help =
        option == command_->get_help_ptr() || typed.name == "--version" || typed.name == help_all;
    if (is_help) {
      done_ = true;
      return;
    }
    if (!takes_value(*option)) {
      const bool answer = !typed.value || *typed.value == "true" || *typed.value == "false";
      if (!answer) refuse(typed.name, "no value", "'" + *typed.value + "'");
      given_[option].emplace_back();
      return;
    }
    std::optional<std::string> value = typed.value;
    const bool may_be_alone = option->get_items_expected_min() == 0;
    const bool follows =
        at_ + 1 < words_.size() && !(may_be_alone && looks_like_option(words_[at_ + 1]));
    if (!value && follows) value = words_[++at_];
    if (!value && may_be_alone) {
      given_[option].emplace_back();
      return;
    }
    // An empty word may be a value, nothing after "=" is none.
    if (!value || typed.value == "") refuse(typed.name, "a value after it", "none");
    note(*option, typed.name, *value);
    while (takes_list(*option) && option->get_allow_extra_args() && at_ + 1 < words_.size() &&
           !looks_like_option(words_[at_ + 1]))
      note(*option, typed.name, words_[++at_]);
  }

  void note(const CLI::Option& option, const std::string& name, const std::string& value) {
    Words& values = given_[&option];
    values.push_back(value);
    if (values.size() > 1 && !takes_list(option))
      refuse(name, "one value", fmt::format("it given twice: '{}' and '{}'", values[0], values[1]));
  }

  // Whether the word is a command; refused if nothing else may stand there.
  bool take_command(const std::string& word) {
    if (command_->get_subcommands({}).empty() || !positionals(*command_).empty()) return false;
    for (const CLI::App* one : command_->get_subcommands({})) {
      if (one->get_name() != word) continue;
      command_ = one;
      given_.clear();
      return true;
    }
    refuse_command(*command_, word);
  }

  void take_word(const std::string& word) {
    if (begins_with_another_dash(word))
      refuse("'" + shortened(word, max_word) + "'",
             "options that begin with -- as the keyboard has it",
             "another dash, perhaps copied from a text");
    // The words after those of launch are a command line of their own.
    if (command_->get_prefix_command()) {
      require_all(fmt::format("none before '{}'", shortened(word, max_word)));
      const CLI::App* parent = command_->get_parent();
      const Words rest(words_.begin() + static_cast<std::ptrdiff_t>(at_), words_.end());
      if (word == "train") check_command_line(*parent, rest);
      done_ = true;
      return;
    }
    size_t most = 0;
    for (const CLI::Option* option : positionals(*command_))
      most += static_cast<size_t>(option->get_items_expected_max());
    if (++words_taken_ > most && !without_dashes_.empty())
      refuse(without_dashes_, with_dashes(*command_, without_dashes_), "no dashes");
    if (!with_dashes(*command_, word).empty()) without_dashes_ = word;
    if (words_taken_ > most)
      refuse("'" + shortened(word, max_word) + "'", most == 0 ? "options only" : "no further word",
             "one more");
  }

  void require_all(const std::string& found = "none") const {
    size_t needed = 0;
    for (const CLI::Option* option : positionals(*command_)) {
      needed += option->get_required() ? 1 : 0;
      if (option->get_required() && words_taken_ < needed)
        refuse(option->get_name(true, false), "a value, since it is required", found);
    }
    for (const CLI::Option* option : command_->get_options()) {
      if (!option->get_positional() && option->get_required() && given_.count(option) == 0)
        refuse(option->get_name(), "a value, since it is required", found);
    }
    if (command_->get_parent() == nullptr || command_->get_subcommands({}).empty()) return;
    std::string names;
    for (const CLI::App* one : command_->get_subcommands({}))
      names += (names.empty() ? "" : ", ") + one->get_name();
    refuse("a command of its own", "one of " + names, "none");
  }

  [[noreturn]] void refuse(const std::string& argument, const std::string& expected,
                           const std::string& found) const {
    fail(title(*command_),
         {.argument = argument, .expected = expected, .found = found, .hint = see_help(*command_)});
  }

  const CLI::App* command_;
  Words words_;
  size_t at_ = 0, words_taken_ = 0;
  std::string without_dashes_;  // the last that is an option's name but for its dashes
  bool ended_ = false;          // by "--": words follow, no options
  bool done_ = false;           // nothing is left to check
  std::map<const CLI::Option*, Words> given_;
};

}  // namespace

std::string title(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  if (parent == nullptr) return "command line";
  return parent->get_parent() == nullptr ? command.get_name()
                                         : title(*parent) + " " + command.get_name();
}

std::string full_name(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : full_name(*parent) + " " + command.get_name();
}

std::vector<std::string> other_names_of(const CLI::Option& option) {
  Words names;
  for (std::string own : option.get_lnames()) {
    std::replace(own.begin(), own.end(), '-', '_');
    for (const std::string_view name : train::other_names(own))
      names.push_back("--" + dashed(std::string(name)));
  }
  return names;
}

std::vector<std::string> check_command_line(const CLI::App& app, std::vector<std::string> words) {
  CommandLine line(app, std::move(words));
  line.check();
  return line.words();
}

}  // namespace binade::cli
