#include "binade/amp/recipe/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "binade/base/json.h"
#include "binade/base/suggestion.h"
#include "binade/base/toml.h"
#include "binade/formats/parse.h"

namespace binade::amp {
namespace {

constexpr size_t max_shown = 80;  // characters of an unknown name in messages

constexpr std::pair<bool Matmuls::*, std::string_view> matmul_names[] = {
    {&Matmuls::forward, "forward"}, {&Matmuls::dgrad, "dgrad"}, {&Matmuls::wgrad, "wgrad"}};
constexpr Role operands[] = {Role::input, Role::weight, Role::gradient};

// A field's value as it was written, and how to refuse it.
class FieldValue {
 public:
  FieldValue(std::string field, const toml::node& node) : field_(std::move(field)), node_(node) {}

  [[noreturn]] void refuse(const std::string& expected) const {
    fail("recipe", {.argument = field_, .expected = expected, .found = found()});
  }
  bool flag() const {
    const auto value = node_.value_exact<bool>();
    if (!value) refuse("true or false");
    return *value;
  }
  int64_t whole(int64_t low, int64_t high) const {
    const auto value = node_.value_exact<int64_t>();
    if (!value || *value < low || *value > high)
      refuse(fmt::format("a whole number from {} to {}", low, high));
    return *value;
  }
  double number() const {
    if (!node_.is_number()) refuse("a number");
    return *node_.value<double>();
  }
  std::string text(const char* expected) const {
    const auto value = node_.value_exact<std::string>();
    if (!value) refuse(expected);
    return *value;
  }
  std::vector<std::string> texts(const char* expected) const {
    const toml::array* array = node_.as_array();
    std::vector<std::string> result;
    if (array == nullptr) refuse(expected);
    for (const toml::node& one : *array) {
      if (!one.is_string()) refuse(expected);
      result.push_back(one.as_string()->get());
    }
    return result;
  }
  const toml::table* table() const { return node_.as_table(); }
  const toml::array* array() const { return node_.as_array(); }
  const std::string& field() const { return field_; }

 private:
  std::string found() const {
    if (const auto value = node_.value_exact<std::string>())
      return json::in_quotes(shortened(*value, max_shown));
    if (const auto value = node_.value_exact<bool>()) return *value ? "true" : "false";
    if (const auto value = node_.value_exact<int64_t>()) return fmt::format("{}", *value);
    if (const auto value = node_.value_exact<double>()) return fmt::format("{}", *value);
    return node_.is_table() ? "a table" : node_.is_array() ? "another array" : "a date or time";
  }

  std::string field_;
  const toml::node& node_;
};

// `known` are names with commas between them.
[[noreturn]] void refuse_unknown(const std::string& field, std::string_view known) {
  std::vector<std::string> names;
  std::istringstream list{std::string(known)};
  for (std::string name; std::getline(list >> std::ws, name, ',');) names.push_back(name);
  const std::string likely = likely_name(field, names);
  fail("recipe", {.argument = shortened(field, max_shown),
                  .expected = fmt::format("one of the fields {}", known),
                  .found = "a field that recipes do not have",
                  .hint = likely.empty() ? "" : "did you mean " + likely + "?"});
}

formats::Format format_named(const FieldValue& value) {
  const std::string given = value.text("the name of a format");
  const std::optional<formats::Format> format = formats::find_format(given);
  if (!format) value.refuse("a format that 'binade formats' lists, or one by its bits");
  return *format;
}

std::string number_text(double value) {
  const std::string text = fmt::format("{}", value);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

ScaleGroup group_of(const FieldValue& value) {
  constexpr const char* expected = "[rows, columns] that share a scale; 0: all";
  const toml::array* sizes = value.array();
  if (sizes == nullptr || sizes->size() != 2) value.refuse(expected);
  const auto size = [&](size_t i) {
    const auto number = (*sizes)[i].value_exact<int64_t>();
    if (!number || *number < 0 || *number > max_group) value.refuse(expected);
    return *number;
  };
  return {size(0), size(1)};
}

Delayed& delayed_of(TensorRecipe& tensor, const FieldValue& value) {
  if (!tensor.is_delayed()) value.refuse("none beside a source that is not delayed");
  return std::get<Delayed>(tensor.source);
}

int history_of(const FieldValue& value) { return static_cast<int>(value.whole(1, 65536)); }
int margin_of(const FieldValue& value) { return static_cast<int>(value.whole(-64, 64)); }

std::string joined_names(auto&& all, auto name_of) {
  std::string text;
  for (const auto& one : all) text += (text.empty() ? "" : ", ") + std::string(name_of(one));
  return text;
}

// The fields of a tensor, in the order in which they are written and read: source before the fields
// that depend on it.
struct TensorField {
  std::string_view name;
  bool (*is_written)(const TensorRecipe& tensor);
  std::string (*text)(const TensorRecipe& tensor);
  void (*set)(TensorRecipe& tensor, const FieldValue& value);
};

bool always(const TensorRecipe&) { return true; }
bool if_delayed(const TensorRecipe& tensor) { return tensor.is_delayed(); }

constexpr TensorField tensor_fields[] = {
    {"format", always, [](const TensorRecipe& t) { return toml_string(t.format.name); },
     [](TensorRecipe& t, const FieldValue& value) { t.format = format_named(value); }},
    {"group", always,
     [](const TensorRecipe& t) { return fmt::format("[{}, {}]", t.group.rows, t.group.columns); },
     [](TensorRecipe& t, const FieldValue& value) { t.group = group_of(value); }},
    {"scale", always, [](const TensorRecipe& t) { return toml_string(t.scale.name); },
     [](TensorRecipe& t, const FieldValue& value) { t.scale = format_named(value); }},
    {"rule", always, [](const TensorRecipe& t) { return toml_string(name(t.rule)); },
     [](TensorRecipe& t, const FieldValue& value) {
       const std::optional<ScaleRule> found = find_rule(value.text("a text"));
       if (!found)
         value.refuse("one of " +
                      joined_names(rule_names, [](const auto& one) { return one.second; }));
       t.rule = *found;
     }},
    {"eps", always, [](const TensorRecipe& t) { return number_text(t.eps); },
     [](TensorRecipe& t, const FieldValue& value) { t.eps = value.number(); }},
    {"source", always,
     [](const TensorRecipe& t) {
       return toml_string(t.is_delayed()                              ? "delayed"
                          : std::holds_alternative<Current>(t.source) ? "current"
                                                                      : "constant");
     },
     [](TensorRecipe& t, const FieldValue& value) {
       const std::string given = value.text("a text");
       if (given == "current") {
         t.source = Current{};
       } else if (given == "constant") {
         t.source = Constant{};
       } else if (given != "delayed") {
         value.refuse("current, delayed or constant");
       } else if (!t.is_delayed()) {
         t.source = Delayed{};
       }
     }},
    {"stochastic", always, [](const TensorRecipe& t) { return fmt::format("{}", t.stochastic); },
     [](TensorRecipe& t, const FieldValue& value) { t.stochastic = value.flag(); }},
    {"four_over_six", always,
     [](const TensorRecipe& t) { return fmt::format("{}", t.four_over_six); },
     [](TensorRecipe& t, const FieldValue& value) { t.four_over_six = value.flag(); }},
    {"history", if_delayed,
     [](const TensorRecipe& t) { return std::to_string(t.delayed().history); },
     [](TensorRecipe& t, const FieldValue& value) {
       delayed_of(t, value).history = history_of(value);
     }},
    {"newest", if_delayed,
     [](const TensorRecipe& t) { return fmt::format("{}", t.delayed().newest); },
     [](TensorRecipe& t, const FieldValue& value) { delayed_of(t, value).newest = value.flag(); }},
    {"margin", if_delayed, [](const TensorRecipe& t) { return std::to_string(t.delayed().margin); },
     [](TensorRecipe& t, const FieldValue& value) {
       delayed_of(t, value).margin = margin_of(value);
     }}};

void set_tensor(std::optional<TensorRecipe>& tensor, const FieldValue& value) {
  const toml::table* table = value.table();
  if (table == nullptr) {
    if (value.flag()) value.refuse("a table of its fields, or false");
    tensor = {};
    return;
  }
  if (!tensor) tensor = TensorRecipe{};
  for (const auto& [key, node] : *table) {
    const auto known = [&name = key](const TensorField& field) { return field.name == name.str(); };
    if (std::none_of(std::begin(tensor_fields), std::end(tensor_fields), known))
      refuse_unknown(fmt::format("{}.{}", value.field(), key.str()),
                     joined_names(tensor_fields, [](const TensorField& f) { return f.name; }));
  }
  for (const TensorField& field : tensor_fields) {
    if (const toml::node* node = table->get(field.name))
      field.set(*tensor, FieldValue(fmt::format("{}.{}", value.field(), field.name), *node));
  }
}

// A field of the recipe itself. Short forms come first, since roles refine them.
struct RecipeField {
  std::string_view name;
  bool is_short;
  // A recipe's value; empty if a short form has none.
  std::string (*text)(const Recipe& recipe);
  void (*set)(Recipe& recipe, const FieldValue& value);
};

template <class F>
void each_operand(Recipe& recipe, const FieldValue& value, F set) {
  for (const Role role : operands) {
    if (!recipe.tensors[role]) value.refuse("none without the role " + std::string(name(role)));
    set(*recipe.tensors[role]);
  }
}

std::string shared_format(const Recipe& recipe) {
  const auto& [input, weight, gradient] = std::tie(
      recipe.tensors[Role::input], recipe.tensors[Role::weight], recipe.tensors[Role::gradient]);
  if (!input || !weight || !gradient || input->format != weight->format) return {};
  if (input->format == gradient->format) return toml_string(input->format.name);
  const bool hybrid =
      input->format == formats::spec::e4m3 && gradient->format == formats::spec::e5m2;
  return hybrid ? toml_string("hybrid") : std::string();
}

// The text of a field of `input`, for short forms.
template <size_t field>
std::string input_text(const Recipe& recipe) {
  const std::optional<TensorRecipe>& input = recipe.tensors[Role::input];
  return input && tensor_fields[field].is_written(*input) ? tensor_fields[field].text(*input)
                                                          : std::string();
}
template <size_t field>
void set_operands(Recipe& recipe, const FieldValue& value) {
  each_operand(recipe, value,
               [&](TensorRecipe& tensor) { tensor_fields[field].set(tensor, value); });
}

constexpr size_t rule_field = 3, eps_field = 4, four_over_six_field = 7, history_field = 8,
                 newest_field = 9, margin_field = 10;

constexpr RecipeField recipe_fields[] = {
    {"format", true, shared_format,
     [](Recipe& recipe, const FieldValue& value) {
       const bool hybrid = value.text("hybrid or the name of a format") == "hybrid";
       each_operand(recipe, value, [&](TensorRecipe& tensor) {
         tensor.format = hybrid ? formats::spec::e4m3 : format_named(value);
       });
       if (hybrid) recipe.tensors[Role::gradient]->format = formats::spec::e5m2;
     }},
    {"rule", true, input_text<rule_field>, set_operands<rule_field>},
    {"eps", true, input_text<eps_field>, set_operands<eps_field>},
    {"four_over_six", true, input_text<four_over_six_field>, set_operands<four_over_six_field>},
    {"history", true, input_text<history_field>, set_operands<history_field>},
    {"newest", true, input_text<newest_field>, set_operands<newest_field>},
    {"margin", true, input_text<margin_field>, set_operands<margin_field>},
    {"head", true,
     [](const Recipe& recipe) {
       return std::string(recipe.tensors[Role::head_input] ? "true" : "false");
     },
     [](Recipe& recipe, const FieldValue& value) { recipe.set_head(value.flag()); }},
    {"matmuls", false,
     [](const Recipe& recipe) {
       std::string text;
       for (const auto& [member, matmul] : matmul_names) {
         if (recipe.matmuls.*member) text += (text.empty() ? "" : ", ") + toml_string(matmul);
       }
       return "[" + text + "]";
     },
     [](Recipe& recipe, const FieldValue& value) {
       recipe.matmuls = {false, false, false};
       for (const std::string& given : value.texts("a list of forward, dgrad and wgrad")) {
         const auto* found = std::find_if(std::begin(matmul_names), std::end(matmul_names),
                                          [&](const auto& one) { return one.second == given; });
         if (found == std::end(matmul_names)) value.refuse("a list of forward, dgrad and wgrad");
         recipe.matmuls.*found->first = true;
       }
     }},
    {"fast_accumulation", false,
     [](const Recipe& recipe) { return fmt::format("{}", recipe.fast_accumulation); },
     [](Recipe& recipe, const FieldValue& value) { recipe.fast_accumulation = value.flag(); }},
    {"wgrad_hadamard", false,
     [](const Recipe& recipe) { return std::to_string(recipe.wgrad_hadamard); },
     [](Recipe& recipe, const FieldValue& value) {
       recipe.wgrad_hadamard = static_cast<int>(value.whole(0, 64));
     }},
    {"random_signs", false,
     [](const Recipe& recipe) { return fmt::format("{}", recipe.random_signs); },
     [](Recipe& recipe, const FieldValue& value) { recipe.random_signs = value.flag(); }},
    {"until", false, [](const Recipe& recipe) { return number_text(recipe.until); },
     [](Recipe& recipe, const FieldValue& value) { recipe.until = value.number(); }},
    {"skip_first", false, [](const Recipe& recipe) { return std::to_string(recipe.skip_first); },
     [](Recipe& recipe, const FieldValue& value) {
       recipe.skip_first = value.whole(0, max_blocks);
     }},
    {"skip_last", false, [](const Recipe& recipe) { return std::to_string(recipe.skip_last); },
     [](Recipe& recipe, const FieldValue& value) {
       recipe.skip_last = value.whole(0, max_blocks);
     }},
    {"exclude", false,
     [](const Recipe& recipe) {
       return "[" +
              joined_names(recipe.exclude, [](const std::string& m) { return toml_string(m); }) +
              "]";
     },
     [](Recipe& recipe, const FieldValue& value) {
       recipe.exclude = value.texts("a list of module paths");
     }}};

// Whether a value is a table or the word that removes a role: `hidden` is both a role and a short
// form.
bool is_role(const FieldValue& value, Role role) {
  return role != Role::hidden || value.table() != nullptr;
}

void set_fields(Recipe& recipe, const toml::table& table) {
  const auto is_known = [](std::string_view key) {
    const auto by_name = [key](const RecipeField& field) { return field.name == key; };
    const auto by_role = [key](Role role) { return name(role) == key; };
    return key == "base" || key == "name" ||
           std::any_of(std::begin(recipe_fields), std::end(recipe_fields), by_name) ||
           std::any_of(std::begin(all_roles), std::end(all_roles), by_role);
  };
  for (const auto& [key, node] : table) {
    if (is_known(key.str())) continue;
    refuse_unknown(std::string(key.str()),
                   "base, name, " +
                       joined_names(recipe_fields, [](const RecipeField& f) { return f.name; }) +
                       ", " + joined_names(all_roles, [](Role role) { return name(role); }));
  }
  // Short forms of roles that do not exist yet come after the roles.
  const auto set_roles = [&] {
    for (const Role role : all_roles) {
      const toml::node* node = table.get(name(role));
      if (node == nullptr) continue;
      const FieldValue value(std::string(name(role)), *node);
      if (is_role(value, role)) set_tensor(recipe.tensors[role], value);
    }
  };
  if (!recipe.tensors[Role::input]) set_roles();
  for (const RecipeField& field : recipe_fields) {
    if (const toml::node* node = table.get(field.name))
      field.set(recipe, FieldValue(std::string(field.name), *node));
  }
  if (const toml::node* node = table.get("hidden")) {
    const FieldValue value("hidden", *node);
    if (value.table() == nullptr) recipe.set_hidden(value.flag());
  }
  set_roles();
  if (const toml::node* node = table.get("name"))
    recipe.name = FieldValue("name", *node).text("a text");
}

// The fields in which a recipe differs from another, as TOML.
std::vector<std::string> differences(const Recipe& from, const Recipe& to) {
  std::vector<std::string> result;
  if (from.name != to.name) result.push_back("name = " + toml_string(to.name));
  for (const RecipeField& field : recipe_fields) {
    if (!field.is_short && field.text(from) != field.text(to))
      result.push_back(fmt::format("{} = {}", field.name, field.text(to)));
  }
  for (const Role role : all_roles) {
    const std::optional<TensorRecipe>&was = from.tensors[role], &is = to.tensors[role];
    if (was == is) continue;
    if (!is) {
      result.push_back(fmt::format("{} = false", name(role)));
      continue;
    }
    for (const TensorField& field : tensor_fields) {
      if (!field.is_written(*is)) continue;
      const bool same = was && field.is_written(*was) && field.text(*was) == field.text(*is);
      if (!same)
        result.push_back(fmt::format("{}.{} = {}", name(role), field.name, field.text(*is)));
    }
  }
  return result;
}

// Fields that are separated by commas, as lines: commas in strings, arrays and tables stay.
std::string as_lines(std::string_view fields) {
  std::string lines(fields);
  char quote = 0;
  bool escaped = false;  // by a backslash in double quotes
  int depth = 0;
  for (char& c : lines) {
    if (quote != 0) {
      if (c == quote && !escaped) quote = 0;
      escaped = !escaped && quote == '"' && c == '\\';
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',' && depth == 0) {
      c = '\n';
    }
  }
  return lines;
}

toml::table one_line(std::string_view fields) {
  return parse_toml(as_lines(fields), {"recipe", "--recipe"});
}

// The built-in recipe that a text is shortest from.
const Recipe& nearest_builtin(const Recipe& recipe) {
  if (const Recipe* named = recipes::find(recipe.name)) return *named;
  return **std::min_element(
      recipes::all().begin(), recipes::all().end(), [&](const Recipe* a, const Recipe* b) {
        return differences(*a, recipe).size() < differences(*b, recipe).size();
      });
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

Recipe base_named(const std::string& name, const ParseRecipeOptions& options);

// A file's recipe, or that of a line without a name.
Recipe from_table(const toml::table& table, const ParseRecipeOptions& options) {
  Recipe recipe = options.base != nullptr ? *options.base : Recipe{};
  if (const toml::node* base = table.get("base"))
    recipe = base_named(FieldValue("base", *base).text("the name of a recipe"), options);
  set_fields(recipe, table);
  return recipe;
}

Recipe base_named(const std::string& name, const ParseRecipeOptions& options) {
  if (const Recipe* recipe = recipes::find(name)) return *recipe;
  if (!options.read_file)
    fail("recipe", {.argument = "name",
                    .expected = recipes::names(),
                    .found = json::in_quotes(shortened(name, max_shown))});
  // A file may start from a built-in recipe only, so that reading ends.
  return from_table(parse_toml(options.read_file(name), {"recipe", name}), {});
}

// Whether a text is a file's: lines of fields instead of one with a name in front.
bool is_document(std::string_view text) {
  return text.find('\n') != std::string_view::npos || text.starts_with('[');
}

}  // namespace

std::string to_text(const Recipe& recipe) {
  Recipe from = nearest_builtin(recipe);
  std::vector<std::string> parts = {from.name};
  // A short form that makes the rest shorter.
  const auto shorten = [&](const std::string& field) {
    Recipe next = from;
    try {
      set_fields(next, one_line(field));
    } catch (const Error&) {
      return;  // it does not apply to the recipe
    }
    if (differences(next, recipe).size() >= differences(from, recipe).size()) return;
    from = next;
    parts.push_back(field);
  };
  for (const RecipeField& field : recipe_fields) {
    if (const std::string value = field.text(recipe); !value.empty())
      shorten(fmt::format("{} = {}", field.name, value));
  }
  // Beside a short form of its own, the role cannot have other fields.
  Recipe with_hidden = from;
  with_hidden.set_hidden(true);
  if (with_hidden.tensors[Role::hidden] == recipe.tensors[Role::hidden]) shorten("hidden = true");
  const std::vector<std::string> rest = differences(from, recipe);
  parts.insert(parts.end(), rest.begin(), rest.end());
  return fmt::format("{}", fmt::join(parts, ", "));
}

Recipe parse_recipe(std::string_view given, const ParseRecipeOptions& options) {
  const std::string_view text = trimmed(given);
  Recipe recipe;
  if (is_document(text)) {
    recipe = from_table(parse_toml(text, {"recipe", "recipe"}), options);
  } else {
    const size_t end = std::min(text.find(','), text.size());
    const std::string_view first = trimmed(text.substr(0, end));
    if (first.find('=') != std::string_view::npos) {
      recipe = from_table(one_line(text), options);
    } else {
      recipe = base_named(std::string(first), options);
      set_fields(recipe, one_line(text.substr(std::min(end + 1, text.size()))));
    }
  }
  recipe.check();
  return recipe;
}

}  // namespace binade::amp
