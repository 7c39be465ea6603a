#pragma once

#include <cstdint>
#include <string>

#include "binade/train/layer_recipes.h"

namespace binade::train {

// What rank 0 is about to do, and the other ranks with it. Orders travel as text ("step 12"), which
// also names the phase of a rank that others wait for.
enum class Order : uint8_t {
  step,  // the step's number; "observed" after it if ops are observed
  evaluate,
  state,    // gather the state for a checkpoint
  shard,    // begin to write a shard of the weights, into a folder
  join,     // wait until all shards are written
  hash,     // Trainer::hash()
  weights,  // gather the weights on rank 0
  times,
  load,       // a checkpoint's folder
  init,       // a folder with a model's weights
  adapter,    // a folder with an adapter's weights
  reference,  // Trainer::prepare_reference()
  recipe,     // a RecipeOrder
  end,
};

struct Command {
  Order order;
  std::string argument = {};
};

std::string to_text(const Command& command);
// Fails for a text that to_text() does not write.
Command parse_command(const std::string& text);

// The argument of Order::recipe: Trainer::set_recipe() with these arguments.
struct RecipeOrder {
  std::string module;
  amp::Recipe recipe;
  Amaxes amaxes;
};

std::string to_text(const RecipeOrder& order);
// Fails for a text that to_text() does not write.
RecipeOrder parse_recipe_order(const std::string& text);

}  // namespace binade::train
