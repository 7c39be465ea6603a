#include "binade/train/config/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

// Some bad files break what toml++ asserts; it refuses them all the same, a few lines on.
#define TOML_ASSERT(expression) static_assert(true)
#include <toml++/toml.h>

#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/io/file.h"
#include "binade/train/config/presets.h"
#include "binade/train/config/toml_text.h"
#include "binade/train/init_from.h"

namespace binade::train {
namespace {

using Value = std::variant<bool, int64_t, double, std::string>;

// A value somebody gave, and where: "--lr" or "run.toml, line 3: [train] lr".
struct Setting {
  const Key* key;
  Value value;
  std::string where;
};

// All that a file and the command line gave.
struct Given {
  std::vector<Setting> settings;
  PrecisionOverrides overrides;
};

// Single-character edits from one word to the other.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, replaced}));
    }
  }
  return row.back();
}

const Key& nearest(std::string_view name) {
  return *std::min_element(keys().begin(), keys().end(), [name](const Key& a, const Key& b) {
    return distance(name, a.name) < distance(name, b.name);
  });
}

const Key* find(std::string_view section, std::string_view name) {
  for (const Key& key : keys()) {
    if (key.name == name && (section.empty() || key.section == section)) return &key;
  }
  return nullptr;
}

std::string full_name(const Key& key) { return fmt::format("[{}] {}", key.section, key.name); }

std::string expectation(const Key& key) {
  if (!key.choices.empty()) return fmt::format("one of {}", fmt::join(key.choices, ", "));
  constexpr const char* kinds[] = {"true or false", "a whole number", "a number", "a text"};
  std::string text = kinds[key.field.index()];
  if (key.field.index() == 0 || key.field.index() == 3) return text;
  return text + fmt::format(" from {:g} to {:g}", key.low, key.high);
}

[[noreturn]] void refuse(const Setting& setting, const std::string& found) {
  fail("config",
       {.argument = setting.where, .expected = expectation(*setting.key), .found = found});
}

std::string in_words(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return json::in_quotes(*text);
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  if (const auto* number = std::get_if<int64_t>(&value)) return fmt::format("{}", *number);
  return std::get<bool>(value) ? "true" : "false";
}

// Writes a setting into its field, if it is of the field's kind and within its range.
void apply(const Setting& setting, Config& config) {
  const Key& key = *setting.key;
  const auto number = [&setting, &key](auto value) {
    const auto real = static_cast<double>(value);
    if (!std::isfinite(real) || real < key.low || real > key.high)
      refuse(setting, fmt::format("{}", value));
    return value;
  };
  const Value& value = setting.value;
  if (const auto* field = std::get_if<bool Config::*>(&key.field)) {
    if (!std::holds_alternative<bool>(value)) refuse(setting, in_words(value));
    config.*(*field) = std::get<bool>(value);
  } else if (const auto* field = std::get_if<int64_t Config::*>(&key.field)) {
    if (!std::holds_alternative<int64_t>(value)) refuse(setting, in_words(value));
    config.*(*field) = number(std::get<int64_t>(value));
  } else if (const auto* field = std::get_if<double Config::*>(&key.field)) {
    const bool whole = std::holds_alternative<int64_t>(value);
    if (!whole && !std::holds_alternative<double>(value)) refuse(setting, in_words(value));
    config.*(*field) =
        number(whole ? static_cast<double>(std::get<int64_t>(value)) : std::get<double>(value));
  } else {
    const auto* text = std::get_if<std::string>(&value);
    if (text == nullptr) refuse(setting, in_words(value));
    const bool known = key.choices.empty() || std::find(key.choices.begin(), key.choices.end(),
                                                        *text) != key.choices.end();
    if (!known) refuse(setting, in_words(value));
    config.*std::get<std::string Config::*>(key.field) = *text;
  }
}

// A number or switch as the command line gives it: the whole text or nothing.
Value parse_option(const Key& key, const std::string& text) {
  const auto whole = [&text](auto number) -> std::optional<Value> {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size()) return {};
    return Value(number);
  };
  if (std::holds_alternative<bool Config::*>(key.field)) {
    if (text == "true" || text == "false") return text == "true";
  } else if (!std::holds_alternative<std::string Config::*>(key.field)) {
    if (const auto number = whole(int64_t{})) return *number;
    if (const auto number = whole(double{})) return *number;
  }
  return text;
}

std::optional<Value> toml_value(const toml::node& node) {
  if (const auto* value = node.as_boolean()) return value->get();
  if (const auto* value = node.as_integer()) return value->get();
  if (const auto* value = node.as_floating_point()) return value->get();
  if (const auto* value = node.as_string()) return value->get();
  return {};
}

std::string place(const std::string& file, const toml::node& node) {
  return fmt::format("{}, line {}", file, node.source().begin.line);
}

[[noreturn]] void refuse_key(const std::string& where, std::string_view section,
                             std::string_view name) {
  const std::string written =
      section.empty() ? json::in_quotes(name) : fmt::format("[{}] {}", section, name);
  if (const Key* elsewhere = find("", name)) {
    fail("config", {.argument = where,
                    .expected = "the key " + full_name(*elsewhere),
                    .found = "it as " + written});
  }
  fail("config", {.argument = where,
                  .expected = "a known key",
                  .found = written,
                  .hint = "did you mean " + full_name(nearest(name)) + "?"});
}

// One [[precision.override]].
PrecisionOverride read_override(const std::string& file, const toml::table& table) {
  PrecisionOverride entry;
  const std::pair<std::string_view, std::string*> texts[] = {
      {"module", &entry.module}, {"op", &entry.op}, {"run", &entry.run}};
  const std::pair<std::string_view, std::optional<bool>*> switches[] = {
      {"fp8", &entry.fp8},
      {"fp8_forward", &entry.fp8_forward},
      {"fp8_dgrad", &entry.fp8_dgrad},
      {"fp8_wgrad", &entry.fp8_wgrad}};
  for (const auto& [name, node] : table) {
    const std::string where =
        fmt::format("{}: [[precision.override]] {}", place(file, node), name.str());
    const auto value = toml_value(node);
    const auto take = [&](auto& field, const char* expected) {
      using T = std::decay_t<decltype(field)>;
      const T* found = value ? std::get_if<T>(&*value) : nullptr;
      if (found == nullptr)
        fail("config", {.argument = where,
                        .expected = expected,
                        .found = value ? in_words(*value) : "a table, an array or a date"});
      field = *found;
    };
    bool known = false;
    for (const auto& [key, field] : texts) {
      if (key != name.str()) continue;
      take(*field, "a text");
      known = true;
    }
    for (const auto& [key, field] : switches) {
      if (key != name.str()) continue;
      take(field->emplace(), "true or false");
      known = true;
    }
    if (name.str() == "fp8_scaling") {
      take(entry.fp8_scaling.emplace(), "a text");
      known = true;
    }
    if (!known)
      fail("config", {.argument = where,
                      .expected = "module, op, run, fp8, fp8_scaling, fp8_forward, fp8_dgrad or "
                                  "fp8_wgrad",
                      .found = json::in_quotes(name.str())});
  }
  check(entry, place(file, table));
  return entry;
}

void read_overrides(const std::string& file, const toml::node& node,
                    PrecisionOverrides& overrides) {
  const toml::array* entries = node.as_array();
  if (entries == nullptr || !entries->is_homogeneous(toml::node_type::table))
    fail("config", {.argument = place(file, node),
                    .expected = "[[precision.override]] tables",
                    .found = "another kind of 'override'"});
  for (const toml::node& entry : *entries)
    overrides.push_back(read_override(file, *entry.as_table()));
}

void read_section(const std::string& file, std::string_view section, const toml::table& table,
                  Given& given) {
  for (const auto& [name, node] : table) {
    const std::string where = place(file, node);
    if (section == "precision" && name.str() == "override") {
      read_overrides(file, node, given.overrides);
      continue;
    }
    const Key* key = find(section, name.str());
    if (key == nullptr) refuse_key(where, section, name.str());
    const std::string described = where + ": " + full_name(*key);
    const auto value = toml_value(node);
    if (!value)
      fail("config", {.argument = described,
                      .expected = expectation(*key),
                      .found = fmt::format("{}", node.is_table()   ? "a table"
                                                 : node.is_array() ? "an array"
                                                                   : "a date or time")});
    given.settings.push_back({key, *value, described});
  }
}

toml::table parsed(std::string_view text, const std::string& file) {
  if (const size_t at = misplaced_character(text); at < text.size()) {
    fail("config", {.argument = fmt::format("{}, line {}", file,
                                            1 + std::ranges::count(text.substr(0, at), '\n')),
                    .expected = "TOML in ASCII but for comments and strings on one line",
                    .found = fmt::format("byte 0x{:02x}", static_cast<unsigned char>(text[at]))});
  }
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    const auto at = error.source().begin;
    fail("config", {.argument = fmt::format("{}, line {}, column {}", file, at.line, at.column),
                    .expected = "TOML",
                    .found = std::string(error.description())});
  }
}

Given read_toml(std::string_view text, const std::string& file) {
  const toml::table root = parsed(text, file);
  Given given;
  for (const auto& [name, node] : root) {
    const bool known = std::any_of(keys().begin(), keys().end(), [&name = name](const Key& key) {
      return key.section == name.str();
    });
    if (known && node.is_table()) {
      read_section(file, name.str(), *node.as_table(), given);
    } else if (node.is_table()) {
      fail("config", {.argument = place(file, node),
                      .expected = "one of [data], [model], [precision], [train], [run]",
                      .found = fmt::format("[{}]", name.str())});
    } else {
      refuse_key(place(file, node), "", name.str());
    }
  }
  return given;
}

// Whether every size of the model is given, as in a saved configuration.
bool sizes_are_given(const std::vector<Setting>& settings) {
  return std::all_of(keys().begin(), keys().end(), [&settings](const Key& key) {
    return key.section != "model" ||
           std::any_of(settings.begin(), settings.end(),
                       [&key](const Setting& s) { return s.key == &key; });
  });
}

Config resolved(const Given& given) {
  const std::vector<Setting>& settings = given.settings;
  Config config;
  config.overrides = given.overrides;
  // The preset and the model to start from first, whoever named them: any key given beside them
  // wins.
  for (const Setting& setting : settings) {
    if (setting.key->name == "preset" || setting.key->name == "init_from") apply(setting, config);
  }
  apply_preset(config);
  if (!config.init_from.empty() && !sizes_are_given(settings)) apply_init_from(config);
  bool vocab_given = !config.init_from.empty();
  for (const Setting& setting : settings) {
    apply(setting, config);
    vocab_given |= setting.key->name == "vocab";
  }
  complete(config, vocab_given);
  return config;
}

}  // namespace

std::string value_text(const Key& key, const Config& config) {
  return std::visit(
      [&config](auto field) -> std::string {
        const auto& value = config.*field;
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::string>) {
          return toml_string(value);
        } else if constexpr (std::is_same_v<T, double>) {
          const std::string text = fmt::format("{}", value);
          return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
        } else {
          return fmt::format("{}", value);
        }
      },
      key.field);
}

Config resolve(const Sources& sources) {
  Given given;
  if (!sources.file.empty())
    given = read_toml(io::read_text(sources.file, "config", 1 << 20), sources.file.string());
  for (const auto& [name, text] : sources.options) {
    std::string key_name = name;
    std::replace(key_name.begin(), key_name.end(), '-', '_');
    const Key* key = find("", key_name);
    if (key == nullptr) refuse_option("--" + name);
    given.settings.push_back({key, parse_option(*key, text), option_name(*key)});
  }
  return resolved(given);
}

Config resolve_text(std::string_view toml, const std::string& name) {
  return resolved(read_toml(toml, name));
}

std::string to_toml(const Config& config) {
  std::string text, section;
  for (const Key& key : keys()) {
    if (!key.saved) continue;
    if (key.section != section) {
      if (section == "precision") text += to_toml(config.overrides);
      section = key.section;
      text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section);
    }
    text += fmt::format("{} = {}\n", key.name, value_text(key, config));
  }
  return text;
}

void refuse_option(const std::string& given) {
  std::string name = given.substr(0, given.find('='));
  name.erase(0, std::min(name.find_first_not_of('-'), name.size()));
  std::replace(name.begin(), name.end(), '-', '_');
  fail("train",
       {.argument = given,
        .expected = "a known option",
        .found = "none of that name",
        .hint = "did you mean " + option_name(nearest(name)) + "? See 'binade train --help'"});
}

}  // namespace binade::train
