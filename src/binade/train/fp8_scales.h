#pragma once

#include <optional>
#include <string>

#include "binade/amp/fp8.h"
#include "binade/nn/module.h"

// Recipes of single layers, and their delayed scales when recipes change during a run.
namespace binade::train {

// The recipe that a module's linear layers run by; none if they run without FP8.
std::optional<amp::Fp8Recipe> recipe_of(const amp::Fp8State& state, const std::string& module);

// Which delayed scales the matmuls of a recipe use: each has two operands. The others are outdated
// after a step.
struct DelayedScales {
  bool input = false, weight = false, gradient = false;
};
DelayedScales delayed_scales(const amp::Fp8Recipe& recipe);

// Largest magnitudes of a linear layer's operands; 0: unknown.
struct Fp8Amaxes {
  double input = 0, weight = 0, gradient = 0;
};

// Gives the delayed scales of a linear layer the values that follow from these amaxes alone.
// Scales whose amax is unknown stay as they are.
void restart_scales(nn::Module& model, const std::string& module, const amp::Fp8Recipe& recipe,
                    const Fp8Amaxes& amaxes);

}  // namespace binade::train
