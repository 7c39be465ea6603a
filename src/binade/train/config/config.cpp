#include "binade/train/config/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>

#include "binade/amp/recipe/text.h"
#include "binade/backend/determinism.h"
#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/base/suggestion.h"
#include "binade/base/text.h"
#include "binade/base/toml.h"
#include "binade/base/toml_text.h"
#include "binade/io/file.h"
#include "binade/train/config/aliases.h"
#include "binade/train/config/earlier_activations.h"
#include "binade/train/config/earlier_recipe.h"
#include "binade/train/config/numbers.h"
#include "binade/train/config/presets.h"

namespace binade::train {
namespace {

// Of unknown names, messages show this many characters.
constexpr size_t max_name = 80;

using Texts = std::vector<std::string>;
using Value = std::variant<bool, int64_t, double, std::string, Texts>;

// A value from a file or the command line, and its origin: "--lr" or
// "run.toml, line 3: [train] lr". Of a number on the command line, also as it was typed.
struct Setting {
  const Key* key;
  Value value;
  std::string where;
  std::string typed = {};
};

// All settings of a file and the command line.
struct Given {
  std::vector<Setting> settings;
  PrecisionOverrides overrides;
  EarlierKeys earlier;  // of [precision]
  EarlierActivations earlier_activations;
  // Of overrides, by index.
  std::map<size_t, EarlierKeys> earlier_overrides;
};

const Key* find(std::string_view section, std::string_view name) {
  for (const Key& key : keys()) {
    if (key.name == name && (section.empty() || key.section == section)) return &key;
  }
  return nullptr;
}

const Key* find_option(std::string name) {
  std::replace(name.begin() + 2, name.end(), '_', '-');
  for (const Key& key : keys()) {
    if (option_name(key) == name) return &key;
  }
  return nullptr;
}

std::string full_name(const Key& key) { return fmt::format("[{}] {}", key.section, key.name); }

// The key that was probably meant by an unknown name, or null.
const Key* likely_key(std::string_view name) {
  if (const Key* key = find("", own_name(name))) return key;
  std::vector<std::string> names;
  for (const Key& key : keys()) names.emplace_back(key.name);
  return find("", likely_name(name, names));
}

std::string expectation(const Key& key) {
  return std::visit(
      [](const auto& field) -> std::string {
        using T = std::decay_t<decltype(field)>;
        if constexpr (std::is_same_v<T, Switch>) return "true or false";
        if constexpr (std::is_same_v<T, Whole>)
          return fmt::format("a whole number from {:.0f} to {:.0f}", field.low, field.high);
        if constexpr (std::is_same_v<T, Real>)
          return fmt::format("a number from {:g} to {:g}", field.low, field.high);
        if constexpr (std::is_same_v<T, Text>) return "a text";
        if constexpr (std::is_same_v<T, List>) return "an array of texts";
        if constexpr (std::is_same_v<T, RecipeText>) return "the text of a recipe";
        if constexpr (std::is_same_v<T, Spelled>) return std::string(field.expected);
        if constexpr (std::is_same_v<T, Choice>)
          return fmt::format("one of {}", fmt::join(field.names(), ", "));
      },
      key.field);
}

[[noreturn]] void refuse(const Setting& setting, const std::string& found,
                         const std::string& hint = "") {
  fail("config", {.argument = setting.where,
                  .expected = expectation(*setting.key),
                  .found = found,
                  .hint = hint});
}

// As TOML writes it: "1000.0".
std::string real_text(double number) {
  const std::string text = fmt::format("{}", number);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

std::string in_words(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return json::in_quotes(*text);
  if (std::holds_alternative<Texts>(value)) return "an array";
  if (const auto* number = std::get_if<double>(&value)) return real_text(*number);
  if (const auto* number = std::get_if<int64_t>(&value)) return fmt::format("{}", *number);
  return std::get<bool>(value) ? "true" : "false";
}

// "a,b" as {"a", "b"}; empty parts are left out.
Texts split_list(std::string_view text) {
  Texts parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::string read_recipe_file(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    fail("recipe", {.argument = "--recipe",
                    .expected = amp::recipes::names() + " or a file",
                    .found = json::in_quotes(shortened(path, max_name))});
  return io::read_text(path, "recipe", 1 << 20);
}

// Writes a setting into its field, or refuses it.
class Assignment {
 public:
  Assignment(const Setting& setting, Config& config) : setting_(setting), config_(config) {}

  void operator()(const Switch& field) { field.member.in(config_) = value<bool>(); }
  void operator()(const Whole& field) {
    field.member.in(config_) = within(value<int64_t>(), field.low, field.high);
  }
  void operator()(const Real& field) {
    const auto* whole = std::get_if<int64_t>(&setting_.value);
    field.member.in(config_) = within(
        whole != nullptr ? static_cast<double>(*whole) : value<double>(), field.low, field.high);
  }
  void operator()(const Text& field) {
    field.member.in(config_) = without_zeros(value<std::string>());
  }
  void operator()(const List& field) {
    const auto* text = std::get_if<std::string>(&setting_.value);
    const auto* flag = std::get_if<bool>(&setting_.value);
    if (flag != nullptr && !field.alone.empty()) {
      field.member.in(config_) = *flag ? Texts{std::string(field.alone)} : Texts();
      return;
    }
    if (text == nullptr) {
      for (const std::string& one : value<Texts>()) without_zeros(one);
    }
    field.member.in(config_) = text != nullptr ? split_list(without_zeros(*text)) : value<Texts>();
  }
  void operator()(const RecipeText& field) {
    field.member.in(config_) =
        amp::parse_recipe(without_zeros(value<std::string>()), {.read_file = read_recipe_file});
  }
  void operator()(const Spelled& field) {
    const auto* whole = std::get_if<int64_t>(&setting_.value);  // activations = 8
    const std::string text = whole != nullptr ? std::to_string(*whole) : value<std::string>();
    if (field.set(config_, text)) return;
    const std::string likely = field.likely != nullptr ? field.likely(text) : "";
    refuse(setting_, in_words(setting_.value),
           likely.empty() ? "" : fmt::format("did you mean {}{}?", option_before(), likely));
  }
  void operator()(const Choice& field) {
    if (!field.set(config_, value<std::string>())) refuse(setting_, in_words(setting_.value));
  }

 private:
  template <class T>
  const T& value() const {
    const T* found = std::get_if<T>(&setting_.value);
    if (found == nullptr)
      refuse(setting_, setting_.typed.empty() ? in_words(setting_.value) : setting_.typed);
    return *found;
  }

  // "--memory " of a setting on the command line.
  std::string option_before() const {
    return setting_.where.starts_with("--") ? setting_.where + " " : "";
  }

  // The system would end a path at a zero byte.
  const std::string& without_zeros(const std::string& text) const {
    if (text.find('\0') != std::string::npos)
      refuse(setting_, in_words(text) + " with a zero byte");
    return text;
  }

  template <class T>
  T within(T number, double low, double high) const {
    const auto real = static_cast<double>(number);
    if (!std::isfinite(real) || real < low || real > high)
      refuse(setting_, setting_.typed.empty() ? fmt::format("{}", number) : setting_.typed);
    return number;
  }

  const Setting& setting_;
  Config& config_;
};

void apply(const Setting& setting, Config& config) {
  std::visit(Assignment(setting, config), setting.key->field);
}

// An option's text as the kind of value its key has; left a text if it is not of that kind.
Value parse_option(const Key& key, const std::string& text) {
  if (std::holds_alternative<Switch>(key.field)) {
    if (text == "true") return true;
    if (text == "false") return false;
  } else if (std::holds_alternative<Whole>(key.field) || std::holds_alternative<Real>(key.field)) {
    if (const auto number = parse_whole(text)) return *number;
    if (const auto number = parse_real(text)) return *number;
  }
  return text;
}

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
  if (const Key* elsewhere = find("", name)) {
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

[[noreturn]] void refuse_option(std::string name) {
  const std::string option = "--" + name;
  if (const auto now = replacement_of(option))
    fail("config",
         {.argument = option, .expected = *now, .found = "the option of an earlier version"});
  std::replace(name.begin(), name.end(), '-', '_');
  const Key* likely = likely_key(name);
  fail("config", {.argument = shortened(option, max_name),
                  .expected = "a known option",
                  .found = "none of that name",
                  .hint = likely != nullptr ? "did you mean " + option_name(*likely) + "?" : ""});
}

void add_options(const Sources::Options& options, Given& given) {
  for (const auto& [name, text] : options) {
    const Key* key = find_option("--" + name);
    if (key == nullptr) refuse_option(name);
    Value value = parse_option(*key, text);
    const bool is_text = std::holds_alternative<std::string>(value);
    given.settings.push_back({key, std::move(value), option_name(*key), is_text ? "" : text});
  }
}

// Whether every size of the model is given, as in a saved configuration. Those of older versions
// lack the architecture.
bool sizes_are_given(const std::vector<Setting>& settings) {
  return std::all_of(keys().begin(), keys().end(), [&settings](const Key& key) {
    return key.section != "model" || key.name == "architecture" ||
           std::any_of(settings.begin(), settings.end(),
                       [&key](const Setting& s) { return s.key == &key; });
  });
}

// What earlier versions wrote in other words.
void apply_earlier(const Given& given, Config& config) {
  if (const auto text = activations_text(given.earlier_activations))
    config.train.activations = nn::parse_activations(*text);
  if (!given.earlier.empty())
    config.precision.recipe = amp::parse_recipe(recipe_text(given.earlier));
  for (const auto& [index, keys] : given.earlier_overrides) {
    std::string& text = *config.precision.overrides[index].recipe;
    text = override_text(keys, given.earlier);
    recipe_of_override(text, config.precision.recipe);  // fails for one that is wrong
  }
}

Config resolved(const Given& given) {
  const std::vector<Setting>& settings = given.settings;
  Config config;
  config.precision.overrides = given.overrides;
  // The preset and the model to start from come first, so that any explicit key overrides them.
  for (const Setting& setting : settings) {
    const std::string_view name = setting.key->name;
    const bool lora = setting.key->section == "lora" && (name == "rank" || name == "adapter");
    if (name == "preset" || name == "init_from" || lora) apply(setting, config);
  }
  apply_preset(config);
  if (!config.lora.adapter.empty() && !sizes_are_given(settings)) apply_adapter(config);
  if (!config.model.init_from.empty()) apply_fine_tuning(config);
  if (!config.model.init_from.empty() && !sizes_are_given(settings)) apply_init_from(config);
  apply_earlier(given, config);
  const auto is_given = [&settings](std::string_view name) {
    return std::any_of(settings.begin(), settings.end(),
                       [name](const Setting& setting) { return setting.key->name == name; });
  };
  for (const Setting& setting : settings) apply(setting, config);
  if (is_given("recipe") && !is_given("precision")) config.precision.matmul = Precision::quantized;
  if (!is_given("params")) choose_params(config);
  const bool vocab_given = !config.model.init_from.empty() || is_given("vocab");
  complete(config, vocab_given);
  config.train.nondeterministic |= !backend::deterministic();
  return config;
}

}  // namespace

std::optional<std::string> replacement_of(std::string_view option) {
  const auto now = recipe_option_for(option);
  return now ? now : activations_option_for(option);
}

std::string value_text(const Key& key, const Config& config) {
  return std::visit(
      [&config](const auto& field) -> std::string {
        using T = std::decay_t<decltype(field)>;
        if constexpr (std::is_same_v<T, Choice> || std::is_same_v<T, Spelled>) {
          return toml_string(field.get(config));
        } else if constexpr (std::is_same_v<T, Text>) {
          return toml_string(field.member.get(config));
        } else if constexpr (std::is_same_v<T, List>) {
          std::string text;
          for (const std::string& one : field.member.get(config))
            text += (text.empty() ? "" : ", ") + toml_string(one);
          return "[" + text + "]";
        } else if constexpr (std::is_same_v<T, RecipeText>) {
          return toml_string(amp::to_text(field.member.get(config)));
        } else if constexpr (std::is_same_v<T, Real>) {
          return real_text(field.member.get(config));
        } else {
          return fmt::format("{}", field.member.get(config));
        }
      },
      key.field);
}

namespace {

std::string* text_of(Given& given, std::string_view name) {
  for (Setting& setting : given.settings) {
    if (setting.key->name == name) return std::get_if<std::string>(&setting.value);
  }
  return nullptr;
}

// The configuration that a run saves in its folder names the tokenizer there. If the folder has got
// another name since, the file has it, too.
void follow_renamed_folder(const io::Path& file, Given& given) {
  const std::string* out = text_of(given, "out");
  std::string* tokenizer = text_of(given, "tokenizer");
  if (out == nullptr || out->empty() || tokenizer == nullptr) return;
  const std::filesystem::path saved = *tokenizer;
  const io::Path beside = file.beside(saved.filename().string());
  if (saved.parent_path() != *out || !beside.exists()) return;
  beside.require(io::EntryKind::file, "config");
  *tokenizer = beside.string();
}

}  // namespace

Config resolve(const Sources& sources) {
  Given given;
  add_options(sources.defaults, given);
  if (!sources.file.empty()) {
    read_toml(io::read_text(sources.file, "config", 1 << 20), sources.file.string(), given);
    follow_renamed_folder(sources.file, given);
  }
  add_options(sources.options, given);
  return resolved(given);
}

Config resolve_text(std::string_view toml, const std::string& name) {
  Given given;
  read_toml(toml, name, given);
  return resolved(given);
}

Config saved_values(std::string_view toml, const std::string& name) {
  Given given;
  read_toml(toml, name, given);
  Config config;
  config.precision.overrides = given.overrides;
  apply_earlier(given, config);
  for (const Setting& setting : given.settings) apply(setting, config);
  return config;
}

std::string to_toml(const Config& config) {
  std::string text, section;
  for (const Key& key : keys()) {
    if (!key.saved) continue;
    if (key.section != section) {
      if (section == "precision") text += to_toml(config.precision.overrides);
      section = key.section;
      text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section);
    }
    text += fmt::format("{} = {}\n", key.name, value_text(key, config));
  }
  return text;
}

}  // namespace binade::train
