#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "binade/amp/autocast.h"
#include "binade/amp/recipe/layer_facts.h"
#include "binade/amp/recipe/text.h"
#include "binade/nn/language_model.h"
#include "binade/train/run/order.h"
#include "support/error_of.h"

// Recipes of random fields, sensible or not: each is refused with the name of a field, or is read
// back from its text, travels between ranks, and runs on the devices that do not refuse it.
namespace binade::train {
namespace {

struct RandomField {
  const char* name;
  std::vector<const char*> values;
};

const std::vector<RandomField>& tensor_field_values() {
  static const std::vector<RandomField> all = {
      {"format",
       {"\"e4m3\"", "\"e5m2\"", "\"e2m1\"", "\"e3m4\"", "\"int8\"", "\"ue4m3\"", "\"e4m3\"",
        "\"bf16\"", "\"e8m0\"", "8"}},
      {"group",
       {"[0, 0]", "[1, 0]", "[1, 16]", "[16, 16]", "[1, 32]", "[128, 128]", "[-1, 0]", "3"}},
      {"scale", {"\"f32\"", "\"e8m0\"", "\"e4m3\"", "\"ue5m3\"", "\"ue5m0\"", "\"e2m1\"", "true"}},
      {"rule",
       {"\"largest\"", "\"power_of_two\"", "\"mx_floor\"", "\"mx_ceil\"", "\"mx_round_up\"",
        "\"nvfp4\"", "\"floor\""}},
      {"stochastic", {"true", "false", "1"}},
      {"four_over_six", {"true", "false", "6"}},
      {"eps", {"0.0", "1e-6", "-1.0", "nan", "\"small\""}},
      {"source", {"\"current\"", "\"delayed\"", "\"constant\"", "\"late\""}},
      {"history", {"1", "16", "0", "65537", "1.5"}},
      {"newest", {"true", "false", "1"}},
      {"margin", {"0", "-64", "64", "65"}},
      {"depth", {"1"}}};
  return all;
}

const std::vector<RandomField>& recipe_field_values() {
  static const std::vector<RandomField> all = {
      {"format", {"\"hybrid\"", "\"e4m3\"", "\"e5m2\"", "\"e2m1\"", "\"e3\""}},
      {"eps", {"0.0", "1e-3", "-1.0"}},
      {"history", {"4", "0"}},
      {"newest", {"true", "0"}},
      {"margin", {"1", "100"}},
      {"head", {"true", "false", "\"yes\""}},
      {"hidden", {"true", "false"}},
      {"matmuls", {"[\"forward\"]", "[\"dgrad\", \"wgrad\"]", "[]", "[\"backward\"]", "3"}},
      {"fast_accumulation", {"false", "1"}},
      {"rule", {"\"mx_ceil\"", "\"largest\"", "2"}},
      {"four_over_six", {"true", "4"}},
      {"wgrad_hadamard", {"16", "64", "0", "17", "-1"}},
      {"random_signs", {"true", "0"}},
      {"until", {"0.5", "1.0", "2.0", "true"}},
      {"skip_first", {"1", "-1"}},
      {"skip_last", {"1", "2097152"}},
      {"exclude", {"[\"blocks.0\"]", "[]", "[1]"}},
      {"gradient", {"false", "true"}},
      {"input", {"false"}},
      {"skips", {"1"}}};
  return all;
}

class RandomTexts {
 public:
  std::string next() {
    const auto builtins = amp::recipes::all();
    std::string text = builtins[below(builtins.size())]->name;
    std::vector<std::string> names;
    for (size_t fields = below(4); fields > 0; --fields) {
      const auto [name, value] = field();
      if (is_repeated(name, names)) continue;
      names.push_back(name);
      text += ", " + name + " = " + value;
    }
    return text;
  }

 private:
  size_t below(size_t count) { return static_cast<size_t>(draws_()) % count; }
  std::pair<std::string, std::string> field() {
    const bool of_tensor = below(2) == 0;
    const auto& fields = of_tensor ? tensor_field_values() : recipe_field_values();
    const RandomField& one = fields[below(fields.size())];
    const std::string value = one.values[below(one.values.size())];
    if (!of_tensor) return {one.name, value};
    const amp::Role role = amp::layer_roles[below(amp::layer_roles.size())];
    return {std::string(amp::name(role)) + "." + one.name, value};
  }
  // TOML itself refuses a field that is given twice, or a role beside fields of it.
  static bool is_repeated(const std::string& name, const std::vector<std::string>& names) {
    return std::any_of(names.begin(), names.end(), [&](const std::string& other) {
      return name == other || name.starts_with(other + ".") || other.starts_with(name + ".");
    });
  }

  std::mt19937_64 draws_{44};
};

// The field that a message refuses: "recipe: input.format: expected ...".
std::string refused_field(const std::string& error) {
  const std::string prefix = "recipe: ";
  if (!error.starts_with(prefix)) return {};
  return error.substr(prefix.size(), error.find(':', prefix.size()) - prefix.size());
}

bool is_field(const std::string& name) {
  const auto among = [](const std::vector<RandomField>& fields, const std::string& wanted) {
    return std::any_of(fields.begin(), fields.end(),
                       [&](const RandomField& one) { return wanted == one.name; });
  };
  const size_t dot = name.find('.');
  const std::string role = name.substr(0, dot);
  const bool is_role = std::any_of(std::begin(amp::all_roles), std::end(amp::all_roles),
                                   [&](amp::Role one) { return amp::name(one) == role; });
  if (dot == std::string::npos) return is_role || among(recipe_field_values(), name);
  return is_role && among(tensor_field_values(), name.substr(dot + 1));
}

// A step of a model with every kind of layer, without its arithmetic.
void run_on_meta(const amp::Recipe& recipe) {
  nn::Llama model({.layers = 3,
                   .width = 32,
                   .heads = 2,
                   .kv_heads = 1,
                   .hidden = 48,
                   .vocab = 40,
                   .context = 16},
                  Device::meta());
  const Tensor tokens = Tensor::empty({2, 16}, DType::i64, Device::meta());
  const amp::Autocast autocast(DType::bf16);
  const amp::QuantizedAutocast quantized(recipe);
  for (int step = 0; step < 2; ++step) model.loss(tokens, tokens).backward();
}

TEST(RandomRecipes, AreRefusedByAFieldOrRun) {
  RandomTexts texts;
  std::set<std::string> refused, ran, refused_by_gpus;
  for (int i = 0; i < 1500; ++i) {
    const std::string text = texts.next();
    SCOPED_TRACE(text);
    std::optional<amp::Recipe> recipe;
    const std::string error = test::error_of([&] { recipe = amp::parse_recipe(text); });
    if (!recipe) {
      EXPECT_TRUE(is_field(refused_field(error))) << error;
      refused.insert(refused_field(error));
      continue;
    }
    EXPECT_EQ(amp::parse_recipe(amp::to_text(*recipe)), *recipe);
    const RecipeOrder order{"blocks.1", *recipe, {}};
    EXPECT_EQ(parse_recipe_order(to_text(order)).recipe, *recipe);
    for (const Device device : {Device::cpu(), Device::cuda(), Device::meta()}) {
      const std::string by_device =
          test::error_of([&] { amp::facts_of(*recipe, {.device = device}); });
      EXPECT_TRUE(by_device.empty() || is_field(refused_field(by_device))) << by_device;
      EXPECT_TRUE(by_device.empty() || device.is_cuda()) << by_device;
      if (!by_device.empty()) refused_by_gpus.insert(refused_field(by_device));
    }
    EXPECT_EQ(test::error_of([&] { run_on_meta(*recipe); }), "");
    ran.insert(amp::to_text(*recipe));
    if (::testing::Test::HasFailure()) return;  // one is enough to read
  }
  EXPECT_GT(refused.size(), 30u);
  EXPECT_GT(ran.size(), 60u);
  EXPECT_GT(refused_by_gpus.size(), 1u);
}

}  // namespace
}  // namespace binade::train
