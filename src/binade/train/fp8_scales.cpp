#include "binade/train/fp8_scales.h"

#include <fmt/format.h>

#include <cmath>

#include "binade/autograd/grad_mode.h"
#include "binade/autograd/module_path.h"
#include "binade/backend/fp8_scale.h"
#include "binade/ops/create/copy.h"

namespace binade::train {

std::optional<amp::Fp8Recipe> recipe_of(const amp::Fp8State& state, const std::string& module) {
  const amp::Fp8Autocast scope(state);
  const autograd::ModulePathGuard path(module);
  const amp::Fp8Recipe* recipe = amp::fp8_recipe();
  return recipe == nullptr ? std::nullopt : std::optional(*recipe);
}

DelayedScales delayed_scales(const amp::Fp8Recipe& recipe) {
  if (recipe.scaling != amp::Fp8Scaling::delayed) return {};
  return {.input = recipe.forward || recipe.wgrad,
          .weight = recipe.forward || recipe.dgrad,
          .gradient = recipe.dgrad || recipe.wgrad};
}

void restart_scales(nn::Module& model, const std::string& module, const amp::Fp8Recipe& recipe,
                    const Fp8Amaxes& amaxes) {
  struct Stream {
    const char* name;
    amp::Fp8Role role;
    double amax;
  };
  const Stream streams[] = {{"input", amp::Fp8Role::activation, amaxes.input},
                            {"weight", amp::Fp8Role::weight, amaxes.weight},
                            {"gradient", amp::Fp8Role::gradient, amaxes.gradient}};
  const NoGrad no_grad;
  const auto buffers = model.named_buffers();
  for (const Stream& stream : streams) {
    if (!(stream.amax > 0) || !std::isfinite(stream.amax)) continue;
    const auto max = static_cast<float>(backend::fp8_max(amp::fp8_type(recipe, stream.role)));
    const double scale =
        backend::delayed_scale(static_cast<float>(stream.amax), max, {.margin = recipe.margin});
    // The history follows from what is pending.
    const std::pair<const char*, double> values[] = {
        {"history", 0}, {"scale", scale}, {"inverse", 1 / scale}, {"pending", stream.amax}};
    for (const auto& [name, value] : values) {
      const std::string path = fmt::format("{}.fp8.{}.{}", module, stream.name, name);
      for (const auto& [buffer, tensor] : buffers) {
        if (buffer == path) fill_(tensor, value);
      }
    }
  }
}

}  // namespace binade::train
