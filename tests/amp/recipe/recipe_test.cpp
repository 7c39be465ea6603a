#include "binade/amp/recipe/recipe.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "binade/amp/recipe/text.h"
#include "binade/formats/parse.h"
#include "support/error_of.h"

namespace binade::amp {
namespace {

constexpr Role layer_operands[] = {Role::input, Role::weight, Role::gradient};

// A built-in recipe, written by hand.
struct Builtin {
  const Recipe& recipe;
  const char* name;
  ScaleGroup input, weight, gradient;
  ScaleRule rule;
  formats::Format scale;
  ScaleSource source;
};

const std::vector<Builtin>& builtins() {
  constexpr ScaleGroup tensor{0, 0}, row{1, 0}, line{1, 128}, block{128, 128}, mx{1, 32}, nv{1, 16},
      square{16, 16};
  constexpr formats::Format f32 = formats::spec::f32, e8m0 = formats::spec::e8m0,
                            e4m3 = formats::spec::e4m3;
  const Delayed past{.history = 16, .newest = false, .margin = 0};
  static const std::vector<Builtin> all = {
      {recipes::delayed(), "delayed", tensor, tensor, tensor, ScaleRule::largest, f32, past},
      {recipes::current(), "current", tensor, tensor, tensor, ScaleRule::largest, f32, Current{}},
      {recipes::row(), "row", row, row, row, ScaleRule::largest, f32, Current{}},
      {recipes::block(), "block", line, block, line, ScaleRule::power_of_two, f32, Current{}},
      {recipes::mx(), "mx", mx, mx, mx, ScaleRule::mx_floor, e8m0, Current{}},
      {recipes::mxfp8(), "mxfp8", mx, mx, mx, ScaleRule::mx_round_up, e8m0, Current{}},
      {recipes::mxfp6(), "mxfp6", mx, mx, mx, ScaleRule::mx_floor, e8m0, Current{}},
      {recipes::mxfp4(), "mxfp4", mx, mx, mx, ScaleRule::mx_floor, e8m0, Current{}},
      {recipes::nvfp4(), "nvfp4", nv, square, nv, ScaleRule::nvfp4, e4m3, Current{}},
      {recipes::nvfp4_plain(), "nvfp4-plain", nv, square, nv, ScaleRule::nvfp4, e4m3, Current{}}};
  return all;
}

struct OperandFormats {
  formats::Format input, gradient;
};

OperandFormats formats_of(const std::string& name) {
  namespace spec = formats::spec;
  if (name == "mxfp8") return {spec::e4m3, spec::e4m3};
  if (name == "mxfp6") return {spec::e2m3, spec::e3m2};
  if (name.find("fp4") != std::string::npos) return {spec::e2m1, spec::e2m1};
  return {spec::e4m3, spec::e5m2};
}

TEST(Recipes, AreThosePublished) {
  for (const Builtin& one : builtins()) {
    SCOPED_TRACE(one.name);
    const Recipe& recipe = one.recipe;
    EXPECT_EQ(recipe.name, one.name);
    const bool is_nvfp4 = recipe.name == "nvfp4";
    const auto [data, gradient] = formats_of(one.name);
    EXPECT_TRUE(recipe[Role::input].format == data);
    EXPECT_TRUE(recipe[Role::weight].format == data);
    EXPECT_TRUE(recipe[Role::gradient].format == gradient);
    EXPECT_EQ(recipe[Role::input].group, one.input);
    EXPECT_EQ(recipe[Role::weight].group, one.weight);
    EXPECT_EQ(recipe[Role::gradient].group, one.gradient);
    for (const Role role : layer_operands) {
      SCOPED_TRACE(name(role));
      EXPECT_EQ(recipe[role].rule, one.rule);
      EXPECT_TRUE(recipe[role].scale == one.scale);
      EXPECT_TRUE(recipe[role].source == one.source);
      EXPECT_EQ(recipe[role].eps, 0);
      EXPECT_EQ(recipe[role].stochastic, is_nvfp4 && role == Role::gradient);
      EXPECT_FALSE(recipe[role].four_over_six);
    }
    EXPECT_EQ(recipe.wgrad_hadamard, is_nvfp4 ? 16 : 0);
    EXPECT_FALSE(recipe.random_signs);
    EXPECT_EQ(recipe.is_random(), is_nvfp4);
    EXPECT_EQ(recipe.until, 1);
    for (const Role role : {Role::hidden, Role::head_input, Role::head_weight, Role::head_gradient})
      EXPECT_FALSE(recipe.tensors[role]) << name(role);
    EXPECT_TRUE(recipe.matmuls.all());
    EXPECT_TRUE(recipe.fast_accumulation);
    EXPECT_EQ(recipe.skip_first, 0);
    EXPECT_EQ(recipe.skip_last, is_nvfp4 ? 1 : 0);
    EXPECT_TRUE(recipe.exclude.empty());
    EXPECT_NO_THROW(recipe.check());
  }
}

TEST(Recipes, AreFoundByName) {
  ASSERT_EQ(recipes::all().size(), builtins().size());
  for (size_t i = 0; i < builtins().size(); ++i) {
    EXPECT_EQ(recipes::all()[i], &builtins()[i].recipe);
    EXPECT_EQ(recipes::find(builtins()[i].name), &builtins()[i].recipe);
  }
  for (const char* other : {"", "rows", "Row", "delayed "})
    EXPECT_EQ(recipes::find(other), nullptr);
}

TEST(Recipes, KnowWhetherScalesAreKnownAndOnePerTensor) {
  for (const Builtin& one : builtins()) {
    const std::string name = one.name;
    EXPECT_EQ(one.recipe.is_delayed(), name == "delayed") << name;
    EXPECT_EQ(one.recipe.is_per_tensor(), name == "delayed" || name == "current") << name;
  }
  for (const Role role : layer_operands) {
    Recipe recipe = recipes::delayed();
    recipe.tensors[role]->source = Current{};
    EXPECT_FALSE(recipe.is_delayed()) << name(role);
    EXPECT_TRUE(recipe.is_per_tensor()) << name(role);
    recipe.tensors[role]->group = {1, 0};
    EXPECT_FALSE(recipe.is_per_tensor()) << name(role);
    recipe.tensors[role] = {};
    EXPECT_FALSE(recipe.is_delayed()) << name(role);
    EXPECT_TRUE(recipe.is_per_tensor()) << name(role);
  }
}

TEST(Roles, HaveTheirNames) {
  const char* names[] = {"input",      "weight",      "gradient",     "hidden",
                         "head_input", "head_weight", "head_gradient"};
  ASSERT_EQ(std::size(all_roles), std::size(names));
  for (size_t i = 0; i < std::size(names); ++i) {
    EXPECT_EQ(name(all_roles[i]), names[i]);
    EXPECT_EQ(static_cast<size_t>(all_roles[i]), i);
  }
  EXPECT_EQ(layer_roles.size(), 4u);
  EXPECT_EQ(layer_roles.back(), Role::hidden);
}

// Whatever the layers' scales are: one per tensor from its values, and a constant one.
TEST(SetHead, AddsAndRemovesItsThreeRoles) {
  for (const Builtin& one : builtins()) {
    SCOPED_TRACE(one.name);
    for (const bool hybrid : {true, false}) {
      if (one.recipe[Role::gradient].format.bits() < 8 && !hybrid) continue;
      Recipe recipe = one.recipe;
      if (recipe[Role::gradient].format.bits() == 8)
        recipe.tensors[Role::gradient]->format = hybrid ? formats::spec::e5m2 : formats::spec::e4m3;
      EXPECT_FALSE(recipe.has_head());
      const Recipe without = recipe;
      recipe.set_head(true);
      const TensorRecipe operand{.format = formats::spec::e4m3};
      const TensorRecipe gradient{.format = hybrid ? formats::spec::e5m2 : formats::spec::e4m3,
                                  .source = Constant{}};
      EXPECT_TRUE(recipe.tensors[Role::head_input] == operand);
      EXPECT_TRUE(recipe.tensors[Role::head_weight] == operand);
      EXPECT_TRUE(recipe.tensors[Role::head_gradient] == gradient);
      EXPECT_TRUE(recipe.has_head());
      EXPECT_NO_THROW(recipe.check());
      for (bool Matmuls::*matmul : {&Matmuls::forward, &Matmuls::dgrad, &Matmuls::wgrad}) {
        Recipe partial = recipe;
        partial.matmuls.*matmul = false;
        EXPECT_FALSE(partial.has_head());
      }
      recipe.set_head(false);
      EXPECT_TRUE(recipe == without);
    }
  }
}

TEST(SetHidden, AddsAndRemovesAScaleOfPowersOfTwo) {
  Recipe recipe = recipes::delayed();
  for (const Role role : layer_operands)
    recipe.tensors[role]->source = Delayed{.history = 5, .newest = true, .margin = 2};
  const Recipe without = recipe;
  EXPECT_FALSE(recipe.stores_hidden());
  recipe.set_hidden(true);
  const TensorRecipe expected{.rule = ScaleRule::power_of_two,
                              .source = Delayed{.history = 5, .newest = true, .margin = 2}};
  EXPECT_TRUE(recipe.tensors[Role::hidden] == expected);
  EXPECT_TRUE(recipe.stores_hidden());
  EXPECT_NO_THROW(recipe.check());
  for (bool Matmuls::*matmul : {&Matmuls::forward, &Matmuls::dgrad, &Matmuls::wgrad}) {
    Recipe partial = recipe;
    partial.matmuls.*matmul = false;
    EXPECT_FALSE(partial.stores_hidden());
  }
  recipe.set_hidden(false);
  EXPECT_TRUE(recipe == without);
}

// The field that check() names; "" if it refuses nothing.
std::string refused_by_check(const Recipe& from, const std::function<void(Recipe&)>& change) {
  Recipe recipe = from;
  change(recipe);
  try {
    recipe.check();
  } catch (const Error& error) {
    return error.facts().argument;
  }
  return "";
}

TEST(RecipeCheck, NamesTheFieldOfANumberOutOfRange) {
  const auto past = [](int history, int margin) {
    return [=](Recipe& r) {
      r.tensors[Role::weight]->source = Delayed{.history = history, .margin = margin};
    };
  };
  const Recipe& delayed = recipes::delayed();
  EXPECT_EQ(refused_by_check(delayed, past(0, 0)), "weight.history");
  EXPECT_EQ(refused_by_check(delayed, past(65537, 0)), "weight.history");
  EXPECT_EQ(refused_by_check(delayed, past(1, 65)), "weight.margin");
  EXPECT_EQ(refused_by_check(delayed, past(1, -65)), "weight.margin");
  for (const auto& [history, margin] : {std::pair(1, -64), std::pair(65536, 64)})
    EXPECT_EQ(refused_by_check(delayed, past(history, margin)), "");
  const auto eps = [](double value) {
    return [=](Recipe& r) { r.tensors[Role::input]->eps = value; };
  };
  EXPECT_EQ(refused_by_check(recipes::row(), eps(-1e-9)), "input.eps");
  EXPECT_EQ(refused_by_check(recipes::row(), eps(std::numeric_limits<double>::quiet_NaN())),
            "input.eps");
  EXPECT_EQ(refused_by_check(recipes::row(), eps(1)), "");
  const auto group = [](ScaleGroup value) {
    return [=](Recipe& r) { r.tensors[Role::gradient]->group = value; };
  };
  EXPECT_EQ(refused_by_check(recipes::row(), group({-1, 0})), "gradient.group");
  EXPECT_EQ(refused_by_check(recipes::row(), group({0, -1})), "gradient.group");
  EXPECT_EQ(refused_by_check(recipes::row(), group({3, 5})), "");
  EXPECT_EQ(refused_by_check(recipes::row(), [](Recipe& r) { r.skip_first = -1; }), "skip_first");
  EXPECT_EQ(refused_by_check(recipes::row(), [](Recipe& r) { r.skip_last = -1; }), "skip_last");
}

TEST(RecipeCheck, NamesAFormatThatNoKernelHas) {
  for (const formats::Format& other :
       {formats::spec::f32, formats::spec::bf16, formats::parse("ue4m3"), formats::spec::e8m0}) {
    for (const Role role : layer_operands) {
      EXPECT_EQ(
          refused_by_check(recipes::row(), [&](Recipe& r) { r.tensors[role]->format = other; }),
          std::string(name(role)) + ".format")
          << other.name;
    }
  }
  EXPECT_EQ(
      refused_by_check(recipes::row(),
                       [](Recipe& r) { r.tensors[Role::input]->scale = formats::spec::bf16; }),
      "input.scale");
}

TEST(RecipeCheck, NamesTheFormatsAndScalesOfARule) {
  const Recipe &mx = recipes::mx(), &nvfp4 = recipes::nvfp4();
  const auto format = [](const formats::Format& value) {
    return [&](Recipe& r) { r.tensors[Role::weight]->format = value; };
  };
  const auto scale = [](const formats::Format& value) {
    return [&](Recipe& r) { r.tensors[Role::weight]->scale = value; };
  };
  EXPECT_EQ(refused_by_check(mx, format(formats::spec::e2m1)), "");
  EXPECT_EQ(refused_by_check(mx, format(formats::spec::e4m3fnuz)), "");
  EXPECT_EQ(refused_by_check(mx, format(formats::parse("e3m4"))), "");
  EXPECT_EQ(refused_by_check(recipes::row(), format(formats::spec::int8)), "");
  EXPECT_EQ(refused_by_check(mx, format(formats::spec::e8m0)), "weight.format");
  EXPECT_EQ(refused_by_check(mx, format(formats::parse("ue4m3"))), "weight.format");
  EXPECT_EQ(refused_by_check(mx, format(formats::spec::bf16)), "weight.format");
  EXPECT_EQ(refused_by_check(recipes::delayed(), format(formats::spec::e2m1)), "weight.format");
  EXPECT_EQ(refused_by_check(nvfp4, scale(formats::parse("ue5m3"))), "");
  EXPECT_EQ(refused_by_check(nvfp4, scale(formats::spec::int8)), "weight.scale");
  EXPECT_EQ(refused_by_check(mx, scale(formats::parse("ue5m0"))), "");
  EXPECT_EQ(refused_by_check(mx, scale(formats::spec::e4m3)), "weight.scale");
  EXPECT_EQ(refused_by_check(nvfp4, scale(formats::spec::f32)), "weight.scale");
  EXPECT_EQ(refused_by_check(nvfp4, scale(formats::spec::e8m0)), "weight.scale");
  EXPECT_EQ(refused_by_check(recipes::row(), scale(formats::spec::e4m3)), "weight.scale");
  const auto weight = [](auto change) {
    return [change](Recipe& r) { change(*r.tensors[Role::weight]); };
  };
  EXPECT_EQ(refused_by_check(nvfp4, weight([](TensorRecipe& w) { w.eps = 1; })), "weight.source");
  EXPECT_EQ(refused_by_check(nvfp4, weight([](TensorRecipe& w) { w.source = Delayed{}; })),
            "weight.source");
  EXPECT_EQ(refused_by_check(nvfp4, weight([](TensorRecipe& w) { w.group = {3, 7}; })), "");
}

TEST(RecipeCheck, NamesRandomFieldsThatDoNotGoTogether) {
  const Recipe &nvfp4 = recipes::nvfp4(), &row = recipes::row(), &delayed = recipes::delayed();
  for (const int size : {-2, 1, 3, 48, 128})
    EXPECT_EQ(refused_by_check(nvfp4, [&](Recipe& r) { r.wgrad_hadamard = size; }),
              "wgrad_hadamard");
  EXPECT_EQ(refused_by_check(nvfp4, [](Recipe& r) { r.wgrad_hadamard = 64; }), "");
  EXPECT_EQ(refused_by_check(delayed, [](Recipe& r) { r.wgrad_hadamard = 16; }), "wgrad_hadamard");
  EXPECT_EQ(refused_by_check(row, [](Recipe& r) { r.random_signs = true; }), "random_signs");
  EXPECT_EQ(refused_by_check(nvfp4, [](Recipe& r) { r.random_signs = true; }), "");
  EXPECT_EQ(refused_by_check(row, [](Recipe& r) { r.tensors[Role::input]->stochastic = true; }),
            "");
  EXPECT_EQ(refused_by_check(row, [](Recipe& r) { r.tensors[Role::weight]->stochastic = true; }),
            "weight.stochastic");
  EXPECT_EQ(
      refused_by_check(delayed, [](Recipe& r) { r.tensors[Role::gradient]->stochastic = true; }),
      "gradient.stochastic");
  EXPECT_EQ(refused_by_check(row, [](Recipe& r) { r.tensors[Role::input]->four_over_six = true; }),
            "input.four_over_six");
  for (const double until : {-0.1, 1.1, std::nan("")})
    EXPECT_EQ(refused_by_check(row, [&](Recipe& r) { r.until = until; }), "until");
}

TEST(RecipeCheck, NamesAFieldThatGpusCannotRunYet) {
  const auto refused = [](const std::string& text) {
    const Recipe recipe = parse_recipe(text);
    const std::string error = test::error_of([&] { recipe.check_device(Device::cuda()); });
    EXPECT_NO_THROW(recipe.check_device(Device::cpu()));
    const size_t begin = std::string("recipe: ").size();
    return error.empty() ? error : error.substr(begin, error.find(':', begin) - begin);
  };
  EXPECT_EQ(refused("mx"), "");
  EXPECT_EQ(refused("mxfp8"), "input.rule");
  EXPECT_EQ(refused("mx, rule = \"mx_ceil\""), "input.rule");
  EXPECT_EQ(refused("mxfp6"), "input.format");
  EXPECT_EQ(refused("row, weight.format = \"int8\""), "weight.format");
  EXPECT_EQ(refused("row, gradient.stochastic = true"), "gradient.stochastic");
  EXPECT_EQ(refused("row, wgrad_hadamard = 16"), "wgrad_hadamard");
  EXPECT_EQ(refused("row, until = 0.9"), "until");
  EXPECT_EQ(refused("mx, gradient.scale = \"ue5m0\""), "gradient.scale");
}

TEST(RecipeCheck, NamesAFormatThatADeviceCannotRun) {
  for (const Builtin& one : builtins()) {
    const std::string error = test::error_of([&] { one.recipe.check_device(Device::cuda()); });
    EXPECT_EQ(
        error.find("input.format: expected e4m3 or e5m2 on a GPU, found e2m1") != std::string::npos,
        std::string(one.name).find("fp4") != std::string::npos)
        << error;
    EXPECT_NO_THROW(one.recipe.check_device(Device::cpu()));
    EXPECT_NO_THROW(one.recipe.check_device(Device::meta()));
  }
  Recipe mixed = recipes::mx();
  mixed.tensors[Role::gradient]->format = formats::spec::e2m1;
  EXPECT_NE(test::error_of([&] { mixed.check_device(Device::cuda()); }).find("gradient.format"),
            std::string::npos);
}

// The head's gradients would be lost in 4 bits.
TEST(Recipes, OfFourBitsHaveAnEightBitHead) {
  Recipe recipe = recipes::nvfp4();
  recipe.set_head(true);
  EXPECT_NO_THROW(recipe.check());
  EXPECT_TRUE(recipe[Role::head_input].format == formats::spec::e4m3);
  EXPECT_TRUE(recipe[Role::head_gradient].format == formats::spec::e5m2);
}

TEST(RecipeCheck, NamesFieldsThatDoNotGoTogether) {
  const Recipe &delayed = recipes::delayed(), &row = recipes::row(), &mx = recipes::mx();
  // Scales that are known before the tensor: one per tensor, and no bound of its amax.
  EXPECT_EQ(refused_by_check(delayed,
                             [](Recipe& r) {
                               r.tensors[Role::weight]->group = {1, 0};
                             }),
            "weight.group");
  EXPECT_EQ(refused_by_check(delayed, [](Recipe& r) { r.tensors[Role::weight]->eps = 1; }),
            "weight.eps");
  // OCP MX as a whole.
  EXPECT_EQ(
      refused_by_check(row, [](Recipe& r) { r.tensors[Role::input]->rule = ScaleRule::mx_floor; }),
      "input.scale");
  EXPECT_EQ(refused_by_check(mx, [](Recipe& r) { r.tensors[Role::input]->rule = {}; }),
            "input.scale");
  EXPECT_EQ(refused_by_check(mx,
                             [](Recipe& r) {
                               r.tensors[Role::input]->group = {1, 64};
                             }),
            "input.group");
  EXPECT_EQ(refused_by_check(mx, [](Recipe& r) { r.tensors[Role::input]->source = Delayed{}; }),
            "input.source");
  EXPECT_EQ(refused_by_check(mx, [](Recipe& r) { r.tensors[Role::input]->eps = 1; }),
            "input.source");
  // A constant scale is that of the gradients of logits, and they have no other.
  EXPECT_EQ(refused_by_check(row, [](Recipe& r) { r.tensors[Role::input]->source = Constant{}; }),
            "input.source");
  EXPECT_EQ(refused_by_check(row,
                             [](Recipe& r) {
                               r.set_head(true);
                               r.tensors[Role::head_gradient]->source = Current{};
                             }),
            "head_gradient.source");
}

TEST(RecipeCheck, NamesTheOperandThatAMatmulLacks) {
  const struct {
    Role absent;
    Matmuls matmuls;
    const char* field;
  } cases[] = {
      {Role::input, {.forward = true, .dgrad = false, .wgrad = false}, "input"},
      {Role::weight, {.forward = true, .dgrad = false, .wgrad = false}, "weight"},
      {Role::gradient, {.forward = true, .dgrad = false, .wgrad = false}, ""},
      {Role::input, {.forward = false, .dgrad = true, .wgrad = false}, ""},
      {Role::weight, {.forward = false, .dgrad = true, .wgrad = false}, "weight"},
      {Role::gradient, {.forward = false, .dgrad = true, .wgrad = false}, "gradient"},
      {Role::input, {.forward = false, .dgrad = false, .wgrad = true}, "input"},
      {Role::weight, {.forward = false, .dgrad = false, .wgrad = true}, ""},
      {Role::gradient, {.forward = false, .dgrad = false, .wgrad = true}, "gradient"},
  };
  for (const auto& [absent, matmuls, field] : cases) {
    EXPECT_EQ(refused_by_check(recipes::row(),
                               [&absent = absent, &matmuls = matmuls](Recipe& r) {
                                 r.tensors[absent] = {};
                                 r.matmuls = matmuls;
                               }),
              field)
        << name(absent);
  }
}

TEST(RecipeCheck, NamesHiddenWithoutDelayedScales) {
  const auto with_hidden = [](const std::function<void(Recipe&)>& change) {
    return refused_by_check(recipes::delayed(), [&](Recipe& r) {
      r.set_hidden(true);
      change(r);
    });
  };
  EXPECT_EQ(with_hidden([](Recipe&) {}), "");
  for (const Role role : layer_operands)
    EXPECT_EQ(with_hidden([&](Recipe& r) { r.tensors[role]->source = Current{}; }), "hidden");
  EXPECT_EQ(with_hidden([](Recipe& r) { r.tensors[Role::hidden]->source = Current{}; }), "hidden");
  EXPECT_EQ(with_hidden([](Recipe& r) { r.tensors[Role::hidden]->rule = ScaleRule::largest; }),
            "hidden");
  EXPECT_EQ(with_hidden([](Recipe& r) { r.tensors[Role::hidden]->format = formats::spec::e5m2; }),
            "hidden");
  for (const Recipe* other : {&recipes::current(), &recipes::row(), &recipes::block()})
    EXPECT_EQ(refused_by_check(*other, [](Recipe& r) { r.set_hidden(true); }), "hidden");
}

TEST(RecipeCheck, NamesARoleOfAPartialHead) {
  const auto with_head = [](const std::function<void(Recipe&)>& change) {
    return refused_by_check(recipes::block(), [&](Recipe& r) {
      r.set_head(true);
      change(r);
    });
  };
  EXPECT_EQ(with_head([](Recipe& r) { r.tensors[Role::head_weight] = {}; }), "head_weight");
  EXPECT_EQ(with_head([](Recipe& r) { r.tensors[Role::head_gradient] = {}; }), "head_gradient");
  EXPECT_EQ(with_head([](Recipe& r) { r.tensors[Role::head_input] = {}; }), "head_weight");
  EXPECT_EQ(with_head([](Recipe& r) {
              r.tensors[Role::head_input]->group = {1, 0};
            }),
            "head_input");
  EXPECT_EQ(with_head([](Recipe& r) { r.tensors[Role::head_weight]->source = Delayed{}; }),
            "head_weight");
  EXPECT_EQ(
      with_head([](Recipe& r) { r.tensors[Role::head_weight]->format = formats::spec::e5m2; }),
      "head_weight");
}

TEST(RecipeCheck, TakesTensorsWithScalesFromTheirValues) {
  for (const Builtin& one : builtins()) {
    for (const Role role : layer_operands) {
      const std::string error = test::error_of([&] { check_current(one.recipe[role]); });
      EXPECT_EQ(error.find("recipe.source") != std::string::npos, one.recipe[role].is_delayed())
          << error;
      EXPECT_EQ(error.empty(), !one.recipe[role].is_delayed()) << error;
    }
  }
  EXPECT_THROW(check_current({.source = Constant{}}), Error);
  EXPECT_THROW(check_current({.format = formats::spec::e8m0}), Error);
}

}  // namespace
}  // namespace binade::amp
