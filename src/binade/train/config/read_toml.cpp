#include "binade/train/config/read_toml.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "binade/amp/recipe/text.h"
#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/base/text.h"
#include "binade/base/toml.h"

namespace binade::train {
namespace {

std::optional<Value> toml_value(const toml::node& node) {
  if (const auto* value = node.as_boolean()) return value->get();
  if (const auto* value = node.as_integer()) return value->get();
  if (const auto* value = node.as_floating_point()) return value->get();
  if (const auto* value = node.as_string()) return value->get();
  if (const auto* array = node.as_array()) {
    Texts texts;
    for (const toml::node& one : *array) {
      if (!one.is_string()) return {};
      texts.push_back(one.as_string()->get());
    }
    return texts;
  }
  return {};
}

std::string line_of(const std::string& file, const toml::node& node) {
  return fmt::format("{}, line {}", file, node.source().begin.line);
}

[[noreturn]] void refuse_key(const std::string& where, std::string_view section,
                             std::string_view name) {
  name = name.substr(0, max_name);
  const std::string written =
      section.empty() ? json::in_quotes(name) : fmt::format("[{}] {}", section, name);
  if (const Key* elsewhere = find_key("", name)) {
    fail("config", {.argument = where,
                    .expected = "the key " + full_name(*elsewhere),
                    .found = "it as " + written});
  }
  const Key* likely = likely_key(name);
  fail("config",
       {.argument = where,
        .expected = "a known key",
        .found = written,
        .hint = likely != nullptr ? "did you mean " + full_name(*likely) + "?"
                                  : std::string("'binade train --help-all' lists all by section")});
}

// One entry of a [[precision.override]] table.
class OverrideField {
 public:
  OverrideField(std::string where, std::optional<Value> value)
      : where_(std::move(where)), value_(std::move(value)) {}

  const std::string& text() const { return as<std::string>("a text"); }
  bool flag() const { return as<bool>("true or false"); }
  Op op() const {
    const auto found = find_op(text());
    if (!found) refuse("an op as 'binade policy' lists them");
    return *found;
  }
  CastClass cast_class() const {
    const auto found = find_cast_class(text());
    if (!found) refuse("a class as 'binade policy' lists them: lower, f32, promote, as_is, ...");
    return *found;
  }
  // A recipe that names no file, so that the configuration is complete.
  std::string recipe() const {
    const std::string& given = text();
    const amp::Recipe& any = amp::recipes::delayed();
    if (given == no_recipe) return given;
    const amp::Recipe parsed =
        amp::parse_recipe(given, {.read_file = read_recipe_file, .base = &any});
    const std::string first = given.substr(0, given.find(','));
    const bool is_file = first.find('=') == std::string::npos && !amp::recipes::find(first);
    return is_file ? amp::to_text(parsed) : given;
  }
  EarlierValue earlier() const {
    if (const auto* flag = value_ ? std::get_if<bool>(&*value_) : nullptr) return *flag;
    return text();
  }

 private:
  template <class T>
  const T& as(const char* expected) const {
    const T* found = value_ ? std::get_if<T>(&*value_) : nullptr;
    if (found == nullptr) refuse(expected);
    return *found;
  }
  [[noreturn]] void refuse(const char* expected) const {
    fail("config", {.argument = where_,
                    .expected = expected,
                    .found = value_ ? in_words(*value_) : "a table, an array or a date"});
  }

  std::string where_;
  std::optional<Value> value_;
};

PrecisionOverride read_override(const std::string& file, const toml::table& table,
                                EarlierKeys& earlier) {
  PrecisionOverride entry;
  const std::map<std::string_view, std::function<void(const OverrideField&)>> readers = {
      {"module", [&](const OverrideField& field) { entry.module = field.text(); }},
      {"op", [&](const OverrideField& field) { entry.op = field.op(); }},
      {"run", [&](const OverrideField& field) { entry.run = field.cast_class(); }},
      {"recipe", [&](const OverrideField& field) { entry.recipe = field.recipe(); }}};
  for (const auto& [name, node] : table) {
    const std::string where = fmt::format("{}: [[precision.override]] {}", line_of(file, node),
                                          shortened(name.str(), max_name));
    if (is_earlier_override_key(name.str())) {
      earlier[std::string(name.str())] = OverrideField(where, toml_value(node)).earlier();
      entry.recipe = no_recipe;  // what it means is known when the whole file is read
      continue;
    }
    const auto reader = readers.find(name.str());
    if (reader == readers.end())
      fail("config", {.argument = where,
                      .expected = "module, op, run or recipe",
                      .found = json::in_quotes(name.str())});
    reader->second(OverrideField(where, toml_value(node)));
  }
  check(entry, line_of(file, table));
  return entry;
}

void read_overrides(const std::string& file, const toml::node& node, Given& given) {
  const toml::array* entries = node.as_array();
  if (entries == nullptr || !entries->is_homogeneous(toml::node_type::table))
    fail("config", {.argument = line_of(file, node),
                    .expected = "[[precision.override]] tables",
                    .found = "another kind of 'override'"});
  for (const toml::node& entry : *entries) {
    EarlierKeys earlier;
    given.overrides.push_back(read_override(file, *entry.as_table(), earlier));
    if (!earlier.empty()) given.earlier_overrides[given.overrides.size() - 1] = earlier;
  }
}

void read_earlier(const std::string& file, std::string_view name, const toml::node& node,
                  EarlierKeys& earlier) {
  EarlierValue& value = earlier[std::string(name)];
  if (const auto flag = node.value_exact<bool>()) {
    value = *flag;
  } else if (const auto whole = node.value_exact<int64_t>()) {
    value = *whole;
  } else if (const auto text = node.value_exact<std::string>()) {
    value = *text;
  } else {
    fail("config", {.argument = fmt::format("{}: [precision] {}", line_of(file, node), name),
                    .expected = "a text, a whole number, true or false",
                    .found = "another kind of value"});
  }
}

void read_earlier_activations(const std::string& where, std::string_view name,
                              const toml::node& node, EarlierActivations& earlier) {
  const bool is_switch = name == "recompute";
  const auto flag = node.value_exact<bool>();
  const auto count = node.value_exact<int64_t>();
  if (is_switch ? !flag : !count || *count < 0)
    fail("config", {.argument = fmt::format("{}: [train] {}", where, name),
                    .expected = is_switch ? "true or false" : "a number of blocks",
                    .found = "another value",
                    .hint = "this key of an earlier version is now activations"});
  if (is_switch) {
    earlier.recompute = *flag;
  } else {
    earlier.keep_activations = *count;
  }
}

void read_section(const std::string& file, std::string_view section, const toml::table& table,
                  Given& given) {
  for (const auto& [name, node] : table) {
    const std::string where = line_of(file, node);
    if (section == "precision" && name.str() == "override") {
      read_overrides(file, node, given);
      continue;
    }
    if (section == "precision" && is_earlier_key(name.str())) {
      read_earlier(file, name.str(), node, given.earlier);
      continue;
    }
    if (section == "train" && is_earlier_activations_key(name.str())) {
      read_earlier_activations(where, name.str(), node, given.earlier_activations);
      continue;
    }
    const Key* key = find_key(section, name.str());
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

// "[data], [model], ...".
std::string section_names() {
  std::string names;
  std::string_view last;
  for (const Key& key : keys()) {
    if (key.section == last) continue;
    last = key.section;
    names += fmt::format("{}[{}]", names.empty() ? "" : ", ", last);
  }
  return names;
}

// [ranks] in files of earlier versions.
constexpr std::string_view earlier_ranks = "dist";

}  // namespace

void read_toml(std::string_view text, const std::string& file, Given& given) {
  const toml::table root = parse_toml(text, {"config", file});
  if (root.contains(earlier_ranks) && root.contains("ranks"))
    fail("config", {.argument = line_of(file, *root.get(earlier_ranks)),
                    .expected = "[ranks] alone",
                    .found = "[dist], its name in earlier versions, beside it"});
  for (const auto& [name, node] : root) {
    const std::string_view section = name.str() == earlier_ranks ? "ranks" : name.str();
    const bool known = std::any_of(keys().begin(), keys().end(),
                                   [section](const Key& key) { return key.section == section; });
    if (known && node.is_table()) {
      read_section(file, section, *node.as_table(), given);
    } else if (node.is_table()) {
      fail("config", {.argument = line_of(file, node),
                      .expected = "one of " + section_names(),
                      .found = fmt::format("[{}]", shortened(name.str(), max_name))});
    } else {
      refuse_key(line_of(file, node), "", name.str());
    }
  }
}

}  // namespace binade::train
