#include "binade/amp/recipe/text.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "binade/formats/parse.h"
#include "support/error_of.h"

namespace binade::amp {
namespace {

constexpr Role text_operands[] = {Role::input, Role::weight, Role::gradient};

void expect_round_trip(const Recipe& recipe) {
  const std::string text = to_text(recipe);
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  Recipe found;
  const std::string error = test::error_of([&] { found = parse_recipe(text); });
  ASSERT_EQ(error, "") << text;
  EXPECT_TRUE(found == recipe) << text << "\nis read as\n" << to_text(found);
}

// A recipe after a change.
template <class F>
Recipe changed(Recipe recipe, F change) {
  change(recipe);
  return recipe;
}

TEST(RecipeText, OfBuiltInRecipesIsTheirName) {
  for (const Recipe* builtin : recipes::all()) {
    EXPECT_EQ(to_text(*builtin), builtin->name);
    EXPECT_TRUE(parse_recipe(builtin->name) == *builtin);
    EXPECT_TRUE(parse_recipe("  " + builtin->name + " \n") == *builtin);
  }
}

// Written and read: short forms where several roles change alike, single fields otherwise.
TEST(RecipeText, IsShort) {
  for (const char* text : {"delayed, history = 1024",
                           R"(delayed, format = "e4m3")",
                           "delayed, newest = true",
                           "delayed, margin = -1",
                           "delayed, head = true",
                           "delayed, hidden = true",
                           "delayed, history = 1024, head = true",
                           "delayed, history = 4, newest = true, margin = 1",
                           "delayed, weight.history = 4",
                           "current, eps = 0.001",
                           "row, input.eps = 0.001",
                           R"(row, matmuls = ["forward"])",
                           R"(row, matmuls = [])",
                           R"(row, matmuls = ["dgrad"], input = false)",
                           "row, fast_accumulation = false",
                           "row, skip_first = 1, skip_last = 2",
                           R"(block, exclude = ["blocks.0.mlp", "head"])",
                           R"(row, input.format = "e5m2")",
                           R"(row, input.group = [1, 128])",
                           R"(current, weight.rule = "power_of_two")",
                           R"(delayed, gradient.source = "current")",
                           R"(block, head = true, head_input.rule = "power_of_two")",
                           "mx, name = \"mine\""}) {
    SCOPED_TRACE(text);
    Recipe recipe;
    ASSERT_EQ(test::error_of([&] { recipe = parse_recipe(text); }), "");
    expect_round_trip(recipe);
    EXPECT_EQ(to_text(recipe), text);
  }
}

TEST(RecipeText, SetsTheFieldsItNames) {
  const auto with = [](const Recipe& recipe, const char* text) {
    EXPECT_TRUE(parse_recipe(text) == recipe) << text << "\nis read as\n"
                                              << to_text(parse_recipe(text));
  };
  with(changed(recipes::delayed(),
               [](Recipe& r) {
                 for (const Role role : text_operands)
                   r.tensors[role]->source = Delayed{.history = 7, .newest = true, .margin = 2};
               }),
       "delayed, history = 7, newest = true, margin = 2");
  with(changed(recipes::delayed(),
               [](Recipe& r) { r.tensors[Role::gradient]->format = formats::spec::e4m3; }),
       R"(delayed, format = "e4m3")");
  with(changed(recipes::delayed(),
               [](Recipe& r) {
                 for (const Role role : text_operands)
                   r.tensors[role]->format = formats::spec::e5m2;
               }),
       R"(delayed, format = "e5m2")");
  with(recipes::delayed(), R"(delayed, format = "hybrid")");
  with(changed(recipes::row(),
               [](Recipe& r) {
                 for (const Role role : text_operands) r.tensors[role]->eps = 2;
               }),
       "row, eps = 2");
  with(changed(recipes::row(),
               [](Recipe& r) {
                 r.tensors[Role::weight] = TensorRecipe{.format = formats::spec::e5m2,
                                                        .group = {2, 3},
                                                        .rule = ScaleRule::power_of_two,
                                                        .eps = 0.5};
               }),
       R"(row, weight.format = "e5m2", weight.group = [2, 3], weight.rule = "power_of_two", )"
       R"(weight.eps = 0.5)");
  with(changed(recipes::row(),
               [](Recipe& r) {
                 r.tensors[Role::weight] =
                     TensorRecipe{.source = Delayed{.history = 2, .newest = true, .margin = -3}};
               }),
       R"(row, weight.margin = -3, weight.history = 2, weight.newest = true, )"
       R"(weight.source = "delayed", weight.group = [0, 0])");
  with(changed(recipes::current(),
               [](Recipe& r) {
                 r.tensors[Role::input] = TensorRecipe{
                     .group = {1, 32}, .scale = formats::spec::e8m0, .rule = ScaleRule::mx_floor};
               }),
       R"(current, input.rule = "mx_floor", input.scale = "e8m0", input.group = [1, 32])");
  with(changed(recipes::block(),
               [](Recipe& r) {
                 r.matmuls = {.forward = false, .dgrad = true, .wgrad = true};
                 r.fast_accumulation = false;
                 r.skip_first = 1;
                 r.skip_last = 2;
                 r.exclude = {"a", "b.c"};
               }),
       R"(block, matmuls = ["wgrad", "dgrad"], fast_accumulation = false, skip_first = 1, )"
       R"(skip_last = 2, exclude = ["a", "b.c"])");
  with(changed(recipes::mx(), [](Recipe& r) { r.set_head(true); }), "mx, head = true");
  with(changed(recipes::delayed(), [](Recipe& r) { r.set_hidden(true); }),
       "delayed, hidden = true");
  with(recipes::delayed(), "delayed, hidden = false, head = false");
}

// Short forms first, in whatever order they are written: roles refine them.
TEST(RecipeText, RolesRefineShortForms) {
  const Recipe expected = changed(recipes::delayed(), [](Recipe& r) {
    for (const Role role : text_operands)
      r.tensors[role]->source = Delayed{.history = 8, .margin = role == Role::gradient ? 3 : 1};
  });
  for (const char* text : {"delayed, history = 8, margin = 1, gradient.margin = 3",
                           "delayed, gradient.margin = 3, margin = 1, history = 8"})
    EXPECT_TRUE(parse_recipe(text) == expected) << text;
}

// Also where other fields follow it.
TEST(RecipeText, KeepsAnyCharacterOfAPath) {
  for (const char* path : {"a\"b", "a\", b", "a\\b", "a\\", "a, b = c", "[a", "a]", "{a", "a\nb",
                           "a # b", "a'b", "a', b", "",
                           "bl\xC3\xB6"
                           "cke"}) {
    expect_round_trip(changed(recipes::row(), [&](Recipe& r) { r.exclude = {path, "b"}; }));
    expect_round_trip(changed(recipes::row(), [&](Recipe& r) { r.name = path; }));
    expect_round_trip(changed(recipes::row(), [&](Recipe& r) {
      r.exclude = {path, "b"};
      r.name = path;
      r.skip_first = 1;
      r.tensors[Role::input]->eps = 0.5;
      r.tensors[Role::weight]->group = {1, 128};
    }));
  }
}

// Which its short form does not say.
TEST(RecipeText, OfHiddenWithAHistoryOfItsOwn) {
  expect_round_trip(changed(recipes::delayed(), [](Recipe& r) {
    r.set_hidden(true);
    r.tensors[Role::hidden]->source = Delayed{.history = 32};
  }));
  expect_round_trip(changed(recipes::delayed(), [](Recipe& r) {
    r.set_hidden(true);
    r.tensors[Role::input]->source = Delayed{.history = 32};
  }));
}

// Draws from a fixed seed.
class RandomRecipes {
 public:
  Recipe next() {
    Recipe recipe;
    if (one_in(4)) {
      recipe.name = pick<std::string>({"", "mine", "a, b = \"c\""});
    } else {
      recipe = *recipes::all()[below(recipes::all().size())];
    }
    for (const Role role : text_operands) {
      if (!recipe.tensors[role] || one_in(2)) recipe.tensors[role] = tensor();
      if (one_in(8)) recipe.tensors[role] = {};
    }
    const auto has = [&](Role role) { return recipe.tensors[role].has_value(); };
    recipe.matmuls = {.forward = !one_in(4) && has(Role::input) && has(Role::weight),
                      .dgrad = !one_in(4) && has(Role::gradient) && has(Role::weight),
                      .wgrad = !one_in(4) && has(Role::gradient) && has(Role::input)};
    if (recipe.is_delayed() && !one_in(4))
      recipe.tensors[Role::hidden] =
          TensorRecipe{.rule = ScaleRule::power_of_two, .source = delayed()};
    if (one_in(2)) add_head(recipe);
    recipe.fast_accumulation = !one_in(4);
    recipe.until = pick<double>({1, 1, 0.82, 0});
    recipe.wgrad_hadamard = 0;
    recipe.random_signs = false;
    for (const Role role : {Role::input, Role::gradient}) {
      if (recipe.tensors[role])
        recipe.tensors[role]->stochastic = is_current(recipe, role) && one_in(3);
    }
    if (is_current(recipe, Role::input) && is_current(recipe, Role::gradient) && one_in(3)) {
      recipe.wgrad_hadamard = pick<int>({2, 16, 64});
      recipe.random_signs = one_in(2);
    }
    recipe.skip_first = pick<int64_t>({0, 0, 1, 1 << 20});
    recipe.skip_last = pick<int64_t>({0, 0, 2, 1 << 20});
    for (const char* path : {"blocks.0", "blocks.1.mlp.up", "head"})
      if (one_in(4)) recipe.exclude.emplace_back(path);
    return recipe;
  }

 private:
  static bool is_current(const Recipe& recipe, Role role) {
    return recipe.tensors[role] && std::holds_alternative<Current>(recipe.tensors[role]->source);
  }
  size_t below(size_t count) { return static_cast<size_t>(draws_()) % count; }
  bool one_in(size_t count) { return below(count) == 0; }
  template <class T>
  T pick(const std::vector<T>& values) {
    return values[below(values.size())];
  }
  Delayed delayed() {
    return {.history = pick<int>({1, 4, 16, 1024, 65536}),
            .newest = one_in(2),
            .margin = pick<int>({-64, -1, 0, 0, 1, 64})};
  }
  ScaleRule rule() { return one_in(2) ? ScaleRule::largest : ScaleRule::power_of_two; }
  double eps() { return pick<double>({0, 0, 1e-12, 0.1, 3, 1e300}); }
  TensorRecipe tensor() {
    TensorRecipe result{.format = one_in(2) ? formats::spec::e4m3 : formats::spec::e5m2};
    const size_t kind = below(4);
    if (kind == 0) {
      result.rule = rule();
      result.source = delayed();
    } else if (kind == 1) {
      result.group = pick<ScaleGroup>({{0, 0}, {1, 0}, {0, 1}, {1, 128}, {128, 128}, {3, 7}});
      result.rule = rule();
      result.eps = eps();
    } else if (kind == 2) {
      result.group = {1, 32};
      result.scale = formats::spec::e8m0;
      result.rule =
          pick<ScaleRule>({ScaleRule::mx_floor, ScaleRule::mx_ceil, ScaleRule::mx_round_up});
      if (one_in(2))
        result.format = formats::parse(pick<std::string>({"e2m1", "e3m4", "e4m3b11fnuz", "int8"}));
      if (one_in(3)) result.scale = formats::parse("ue5m0");
    } else {
      result.format = formats::spec::e2m1;
      result.group = pick<ScaleGroup>({{1, 16}, {16, 16}, {3, 7}});
      result.scale = formats::spec::e4m3;
      result.rule = ScaleRule::nvfp4;
      result.four_over_six = one_in(3);
    }
    return result;
  }
  void add_head(Recipe& recipe) {
    for (const Role role : {Role::head_input, Role::head_weight})
      recipe.tensors[role] = TensorRecipe{.rule = rule(), .eps = eps()};
    recipe.tensors[Role::head_gradient] = TensorRecipe{
        .format = one_in(2) ? formats::spec::e4m3 : formats::spec::e5m2, .source = Constant{}};
  }

  std::mt19937_64 draws_{20240};
};

TEST(RecipeText, OfAnyRecipeIsReadBack) {
  RandomRecipes random;
  std::set<std::string> texts;
  int hidden = 0, unnamed = 0;
  for (int i = 0; i < 500; ++i) {
    const Recipe recipe = random.next();
    ASSERT_EQ(test::error_of([&] { recipe.check(); }), "") << to_text(recipe);
    expect_round_trip(recipe);
    texts.insert(to_text(recipe));
    hidden += recipe.tensors[Role::hidden] ? 1 : 0;
    unnamed += recipes::find(recipe.name) == nullptr ? 1 : 0;
    if (::testing::Test::HasFailure()) return;  // one is enough to read
  }
  EXPECT_GT(texts.size(), 400u);
  EXPECT_GT(hidden, 0);
  EXPECT_GT(unnamed, 50);
}

// --- whole files ---

TEST(RecipeDocument, StartsFromItsBase) {
  const Recipe expected = changed(recipes::delayed(), [](Recipe& r) {
    for (const Role role : text_operands) r.tensors[role]->source = Delayed{.margin = 1};
    r.tensors[Role::gradient]->format = formats::spec::e4m3;
  });
  EXPECT_TRUE(parse_recipe("base = \"delayed\"\n"
                           "margin = 1  # of all operands\n"
                           "[gradient]\n"
                           "format = \"e4m3\"\n") == expected);
  EXPECT_TRUE(parse_recipe(R"(base = "delayed", margin = 1, gradient.format = "e4m3")") ==
              expected);
  EXPECT_TRUE(parse_recipe("base = \"row\"\n"
                           "gradient = false\n"
                           "matmuls = [\"forward\"]\n") == changed(recipes::row(), [](Recipe& r) {
                r.tensors[Role::gradient] = {};
                r.matmuls = {.forward = true, .dgrad = false, .wgrad = false};
              }));
}

TEST(RecipeDocument, StartsFromNothingWithoutABase) {
  Recipe expected{.name = "mine"};
  expected.tensors[Role::input] = TensorRecipe{.group = {1, 0}};
  expected.tensors[Role::weight] = TensorRecipe{.source = Delayed{.history = 3, .margin = 1}};
  expected.matmuls = {.forward = true, .dgrad = false, .wgrad = false};
  EXPECT_TRUE(parse_recipe("name = \"mine\"\n"
                           "matmuls = [\"forward\"]\n"
                           "[input]\n"
                           "group = [1, 0]\n"
                           "[weight]\n"
                           "source = \"delayed\"\n"
                           "history = 3\n"
                           "margin = 1\n") == expected);
  // Short forms apply to the roles it defines.
  EXPECT_TRUE(parse_recipe("name = \"delayed\"\n"
                           "format = \"hybrid\"\n"
                           "history = 16\n"
                           "[input]\n"
                           "source = \"delayed\"\n"
                           "[weight]\n"
                           "source = \"delayed\"\n"
                           "[gradient]\n"
                           "source = \"delayed\"\n") == recipes::delayed());
  // Only tables.
  EXPECT_TRUE(parse_recipe("[input]\n[weight]\n[gradient]\nformat = \"e5m2\"\n") ==
              changed(recipes::current(), [](Recipe& r) { r.name = ""; }));
}

TEST(RecipeDocument, IsReadByName) {
  std::string asked;
  const ParseRecipeOptions options{.read_file = [&](const std::string& path) -> std::string {
    asked = path;
    return path == "other.toml" ? "base = \"mine.toml\"\n" : "base = \"row\"\nskip_last = 1\n";
  }};
  EXPECT_TRUE(parse_recipe("folder/mine.toml, skip_first = 2", options) ==
              changed(recipes::row(), [](Recipe& r) {
                r.skip_first = 2;
                r.skip_last = 1;
              }));
  EXPECT_EQ(asked, "folder/mine.toml");
  asked.clear();
  EXPECT_TRUE(parse_recipe("block", options) == recipes::block());  // built-in ones come first
  EXPECT_EQ(asked, "");
  EXPECT_THROW(parse_recipe("other.toml", options), Error);  // a file starts from a built-in one
}

TEST(RecipeDocument, MayStartFromTheRecipeInUse) {
  const Recipe base = parse_recipe("delayed, history = 5");
  EXPECT_TRUE(parse_recipe("margin = 2", {.base = &base}) ==
              parse_recipe("delayed, history = 5, margin = 2"));
  EXPECT_TRUE(parse_recipe("row", {.base = &base}) == recipes::row());
}

// --- refusals ---

// The field that a refused text's error names; "" if the text is read.
std::string refused_field(const std::string& text) {
  try {
    parse_recipe(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.op(), "recipe") << error.what();
    return error.facts().argument;
  }
  return "";
}

struct RefusedText {
  const char* text;
  const char* field;
};

void expect_refused_fields(std::initializer_list<RefusedText> cases) {
  for (const auto& [text, field] : cases) EXPECT_EQ(refused_field(text), field) << text;
}

TEST(RecipeTextRefuses, UnknownNamesAndFields) {
  expect_refused_fields({{"rows", "name"},
                         {"", "name"},
                         {"mine.toml", "name"},
                         {"base = \"rows\"\n", "name"},
                         {"delayed, histroy = 4", "histroy"},
                         {"row, inputs.format = \"e4m3\"", "inputs"},
                         {"row, input.blocks = 3", "input.blocks"},
                         {"row, head_weight.blocks = 3", "head_weight.blocks"},
                         {"base = \"row\"\n[gradient]\nform = \"e4m3\"\n", "gradient.form"}});
}

TEST(RecipeTextRefuses, ValuesOfAnotherType) {
  expect_refused_fields({{"delayed, history = \"4\"", "history"},
                         {"delayed, history = 4.0", "history"},
                         {"delayed, weight.history = true", "weight.history"},
                         {"delayed, newest = 1", "newest"},
                         {"delayed, input.newest = 1", "input.newest"},
                         {"delayed, margin = 0.5", "margin"},
                         {"row, format = 4", "format"},
                         {"row, input.format = 4", "input.format"},
                         {"row, input.group = 3", "input.group"},
                         {"row, input.group = [1]", "input.group"},
                         {"row, input.group = [1, \"a\"]", "input.group"},
                         {"row, input.scale = 1", "input.scale"},
                         {"row, input.rule = 1", "input.rule"},
                         {"row, input.source = 1", "input.source"},
                         {"row, input.eps = \"1\"", "input.eps"},
                         {"row, eps = \"1\"", "eps"},
                         {"row, input = true", "input"},
                         {"row, input = 3", "input"},
                         {"delayed, hidden = 3", "hidden"},
                         {"row, head = \"yes\"", "head"},
                         {"row, matmuls = \"forward\"", "matmuls"},
                         {"row, matmuls = [1]", "matmuls"},
                         {"row, fast_accumulation = 1", "fast_accumulation"},
                         {"row, skip_first = 1.5", "skip_first"},
                         {"row, skip_last = \"1\"", "skip_last"},
                         {"row, exclude = \"a\"", "exclude"},
                         {"row, exclude = [1]", "exclude"},
                         {"row, name = 3", "name"},
                         {"base = 3", "base"}});
}

TEST(RecipeTextRefuses, ValuesOutOfRange) {
  expect_refused_fields({{"delayed, history = 0", "history"},
                         {"delayed, history = 65537", "history"},
                         {"delayed, gradient.history = 0", "gradient.history"},
                         {"delayed, margin = 65", "margin"},
                         {"delayed, weight.margin = -65", "weight.margin"},
                         {"row, skip_first = -1", "skip_first"},
                         {"row, skip_last = -1", "skip_last"},
                         {"row, input.eps = -1", "input.eps"},
                         {"row, input.eps = nan", "input.eps"},
                         {"row, input.group = [-1, 0]", "input.group"},
                         {"row, matmuls = [\"forwards\"]", "matmuls"},
                         {"row, input.rule = \"smallest\"", "input.rule"},
                         {"row, input.source = \"past\"", "input.source"}});
}

TEST(RecipeTextRefuses, FormatsWithoutKernels) {
  expect_refused_fields({{"row, format = \"e9m9\"", "format"},
                         {"row, input.format = \"e9m9\"", "input.format"},
                         {"row, input.format = \"hybrid\"", "input.format"},
                         {"row, input.format = \"ue4m3\"", "input.format"},
                         {"row, gradient.format = \"bf16\"", "gradient.format"},
                         {"row, format = \"e8m0\"", "input.format"},
                         {"row, input.scale = \"f17\"", "input.scale"},
                         {"row, input.scale = \"bf16\"", "input.scale"}});
}

TEST(RecipeTextRefuses, FieldsThatDoNotGoTogether) {
  expect_refused_fields(
      {{"row, input.rule = \"mx_floor\"", "input.scale"},
       {"row, input.scale = \"e8m0\"", "input.scale"},
       {"mx, weight.group = [1, 64]", "weight.group"},
       {"mx, weight.eps = 1", "weight.source"},
       {"mx, weight.source = \"delayed\"", "weight.source"},
       {"delayed, weight.group = [1, 0]", "weight.group"},
       {"row, input.source = \"delayed\"", "input.group"},
       {"delayed, eps = 0.5", "input.eps"},
       {"row, history = 4", "history"},
       {"row, newest = true", "newest"},
       {"row, input.margin = 1", "input.margin"},
       {"delayed, weight.source = \"current\", weight.history = 4", "weight.history"},
       {"row, hidden = true", "hidden"},
       {"current, hidden = true", "hidden"},
       {"delayed, hidden = true, input.source = \"current\"", "hidden"},
       {"row, head = true, head_weight = false", "head_weight"},
       {"row, head = true, head_input = false", "head_weight"},
       {"row, head = true, head_gradient = false", "head_gradient"},
       {"row, head_input.format = \"e4m3\"", "head_weight"},
       {"row, head = true, head_input.group = [1, 0]", "head_input"},
       {"row, head = true, head_gradient.source = \"current\"", "head_gradient.source"},
       {"row, input.source = \"constant\"", "input.source"}});
}

TEST(RecipeTextRefuses, MatmulsWithoutTheirOperands) {
  expect_refused_fields({{"row, gradient = false", "gradient"},
                         {"row, weight = false", "weight"},
                         {"row, input = false", "input"},
                         {"row, weight = false, matmuls = [\"forward\"]", "weight"},
                         {"row, weight = false, matmuls = [\"wgrad\"]", ""},
                         {"row, gradient = false, matmuls = [\"wgrad\"]", "gradient"},
                         {"name = \"mine\"", "input"}});
}

TEST(RecipeTextRefuses, WhatIsNoToml) {
  for (const char* text : {"row, skip_first", "row, exclude = [\"a\"", "row, skip_first = 1 2",
                           "row, head = true, head = false", "row} , x = {", "[input\nformat = 1",
                           "delayed history = 4 = 5"})
    EXPECT_NE(refused_field(text), "") << text;
}

}  // namespace
}  // namespace binade::amp
