#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "binade/train/config/config.h"

namespace binade::train {

// The keys of a configuration, from which TOML, options, --help and messages are made.

// Where a value is in a Config.
template <class T>
struct Member {
  const T& (*get)(const Config& config);
  T& (*in)(Config& config);
};

// The kinds of fields that a key may set. Ranges include both ends.
struct Switch {
  Member<bool> member;
};
struct Whole {
  Member<int64_t> member;
  double low, high;
};
struct Real {
  Member<double> member;
  double low, high;
  std::string_view kind = "number";
};
struct Text {
  Member<std::string> member;
};
// An array of texts in TOML; separated by commas on the command line.
struct List {
  Member<std::vector<std::string>> member;
  std::string_view alone = {};  // what the option means without a text; empty: it needs one
};
// One of a table of named values (choices.h).
struct Choice {
  std::vector<std::string_view> (*names)();
  std::string_view (*get)(const Config& config);
  bool (*set)(Config& config, std::string_view name);  // false if the table has no such name
};
// The text form of a recipe (amp/recipe/text.h), or a file with one.
struct RecipeText {
  Member<amp::Recipe> member;
};
// A value with a text form of its own.
struct Spelled {
  std::string (*get)(const Config& config);
  bool (*set)(Config& config, std::string_view text);  // false if the text means nothing
  std::string_view expected, placeholder;
  // What may have been meant by a text that means nothing; empty: no idea.
  std::string (*likely)(std::string_view text) = nullptr;
};
using Field = std::variant<Switch, Whole, Real, Text, List, Choice, RecipeText, Spelled>;

// One key: all that reading TOML, the command line, --help, saving and messages need to know of it.
struct Key {
  std::string_view section;
  std::string_view name;
  Field field;
  std::string_view help;
  bool saved = true;  // part of config.toml
};

std::span<const Key> keys();
// Whether most people meet the key at some time; the others are for the few who need them.
bool is_common(const Key& key);
// "--weight-decay"; those of [lora] begin with "--lora-", those of [qat] with "--qat".
std::string option_name(const Key& key);
// The placeholder in --help: "N", "X", "TEXT", "A,B", "NAME|FILE" or "a|b|c"; empty for a switch.
std::string value_name(const Key& key);
// What says now what an option of an earlier version said ("--activations recompute"); none for
// other options.
std::optional<std::string> replacement_of(std::string_view option);
// The key's value as TOML writes it.
std::string value_text(const Key& key, const Config& config);

// The key of a section; of any if that is empty. Null if there is none.
const Key* find_key(std::string_view section, std::string_view name);
// The key of an option such as "--weight-decay" or "--weight_decay", or null.
const Key* find_option(std::string name);
// The key that was probably meant by an unknown name, or null.
const Key* likely_key(std::string_view name);
// "[train] lr".
std::string full_name(const Key& key);
// The values that a key takes, in words: "a whole number from 1 to 1024".
std::string expectation(const Key& key);

}  // namespace binade::train
