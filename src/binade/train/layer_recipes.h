#pragma once

#include <map>
#include <optional>
#include <string>

#include "binade/amp/recipe/state.h"
#include "binade/nn/module.h"

// Recipes of single layers, and their delayed scales when recipes change during a run.
namespace binade::train {

// The recipe that a module's linear layers run by; none if they are not quantized.
std::optional<amp::Recipe> recipe_of(const amp::RecipeState& state, const std::string& module);

// Which delayed scales a layer with this recipe uses. The others are outdated after a step.
amp::RoleMap<bool> used_scales(const amp::Recipe& recipe);

// The delayed scales that linear layers use in the next step (f32 [1] on the model's device), by
// module.
std::map<std::string, amp::RoleMap<Tensor>> delayed_scales(nn::Module& model,
                                                           const amp::RecipeState& state);

// Largest magnitudes of a linear layer's tensors; 0: unknown.
using Amaxes = amp::RoleMap<double>;

// Gives the delayed scales of a linear layer the values that follow from these amaxes alone.
// Scales whose amax is unknown stay as they are.
void restart_scales(nn::Module& model, const std::string& module, const amp::Recipe& recipe,
                    const Amaxes& amaxes);

}  // namespace binade::train
