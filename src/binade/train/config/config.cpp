#include "binade/train/config/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "binade/amp/recipe/text.h"
#include "binade/backend/determinism.h"
#include "binade/base/error.h"
#include "binade/base/text.h"
#include "binade/io/file.h"
#include "binade/train/config/cured.h"
#include "binade/train/config/numbers.h"
#include "binade/train/config/presets.h"
#include "binade/train/config/read_toml.h"

namespace binade::train {
namespace {

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
  Config config = unresolved();
  config.precision.overrides = given.overrides;
  // What defaults depend on comes first, so that any explicit key overrides them.
  for (const Setting& setting : settings) {
    const std::string_view name = setting.key->name;
    const bool lora = setting.key->section == "lora" && (name == "rank" || name == "adapter");
    if (name == "preset" || name == "init_from" || name == "objective" || lora)
      apply(setting, config);
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

// Steps and epochs say the same thing: of several sources the last one counts, and one that gives
// both is refused. `first` is the first setting of this source.
void choose_unit(Given& given, size_t first) {
  const auto is_unit = [](const Setting& setting) {
    return setting.key->section == "train" &&
           (setting.key->name == "steps" || setting.key->name == "epochs");
  };
  const auto begin = given.settings.begin(), own = begin + static_cast<std::ptrdiff_t>(first);
  const auto unit = std::find_if(own, given.settings.end(), is_unit);
  if (unit == given.settings.end()) return;
  const auto other = std::find_if(unit, given.settings.end(), [&](const Setting& setting) {
    return is_unit(setting) && setting.key != unit->key;
  });
  if (other != given.settings.end())
    fail("config", {.argument = unit->where + " and " + other->where,
                    .expected = "one of steps and epochs",
                    .found = "both"});
  given.settings.erase(std::remove_if(begin, own, is_unit), own);
}

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

Config unresolved() {
  Config config;
  config.lora.base.kind = BaseFormat::Kind::automatic;
  return config;
}

Config resolve(const Sources& sources) { return resolve_cured(sources, {}); }

Config resolve_cured(const Sources& sources, const io::Path& cure) {
  Given given;
  add_options(sources.defaults, given);
  const auto read = [&given](const io::Path& file) {
    const size_t first = given.settings.size();
    read_toml(io::read_text(file, "config", 1 << 20), file.string(), given);
    choose_unit(given, first);
  };
  if (!sources.file.empty()) {
    read(sources.file);
    follow_renamed_folder(sources.file, given);
  }
  if (!cure.empty()) read(cure);
  const size_t first = given.settings.size();
  add_options(sources.options, given);
  choose_unit(given, first);
  return resolved(given);
}

Config resolve_text(std::string_view toml, const std::string& name) {
  Given given;
  read_toml(toml, name, given);
  choose_unit(given, 0);
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
