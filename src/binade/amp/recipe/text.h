#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "binade/amp/recipe/recipe.h"

// The text form of a recipe, used wherever one is stored, sent or typed: the name of a built-in
// recipe or of a file, and fields that differ from it, as TOML writes them:
//
//   delayed, history = 1024, head = true
//   block, gradient.format = "e4m3", exclude = ["blocks.0.mlp"]
//
// A file has the same fields, a line each, and names the recipe that it starts from by `base`;
// without one it starts from nothing:
//
//   base = "delayed"
//   margin = 1
//   [gradient]
//   format = "e4m3"
//
// Fields: `matmuls`, a list of forward, dgrad and wgrad; fast_accumulation; wgrad_hadamard;
// random_signs; until; skip_first; skip_last; exclude; and for each role (input, weight, gradient,
// hidden, head_input, head_weight, head_gradient) a table of format, group, scale, rule, eps,
// source, stochastic, four_over_six, and, if the source is delayed, history, newest and margin;
// false instead of a table removes the role. Short forms set several roles: format ("hybrid": e5m2
// for gradients, e4m3 for the rest; or one format for all), rule, four_over_six, history, newest,
// margin and eps of input, weight and gradient; head and hidden, true or false.
namespace binade::amp {

// One line that parse_recipe() reads back to the same recipe.
std::string to_text(const Recipe& recipe);

struct ParseRecipeOptions {
  // Returns the text of a file that a recipe's text names. Without it, a name must be a built-in's.
  std::function<std::string(const std::string& path)> read_file = {};
  // What a text without a name starts from; null: nothing.
  const Recipe* base = nullptr;
};

// Reads the text of a recipe, or a whole file's. Fails, naming the field, for what is unknown, out
// of range or does not go together.
Recipe parse_recipe(std::string_view text, const ParseRecipeOptions& options = {});

}  // namespace binade::amp
