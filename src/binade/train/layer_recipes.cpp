#include "binade/train/layer_recipes.h"

#include <cmath>

#include "binade/amp/recipe/layer_scales.h"
#include "binade/autograd/grad_mode.h"
#include "binade/autograd/module_path.h"
#include "binade/backend/quantize_scale.h"
#include "binade/ops/create/copy.h"

namespace binade::train {

std::optional<amp::Recipe> recipe_of(const amp::RecipeState& state, const std::string& module) {
  const amp::QuantizedAutocast scope(state);
  const autograd::ModulePathGuard path(module);
  const amp::Recipe* recipe = amp::current_recipe();
  return recipe == nullptr ? std::nullopt : std::optional(*recipe);
}

amp::RoleMap<bool> used_scales(const amp::Recipe& recipe) {
  const auto [forward, dgrad, wgrad] = recipe.matmuls;
  amp::RoleMap<bool> used;
  used[amp::Role::input] = forward || wgrad;
  used[amp::Role::weight] = forward || dgrad;
  used[amp::Role::gradient] = dgrad || wgrad;
  used[amp::Role::hidden] = recipe.stores_hidden();
  for (const amp::Role role : amp::layer_roles)
    used[role] &= recipe.tensors[role] && recipe.tensors[role]->is_delayed();
  return used;
}

std::map<std::string, amp::RoleMap<Tensor>> delayed_scales(nn::Module& model,
                                                           const amp::RecipeState& state) {
  std::map<std::string, amp::RoleMap<Tensor>> result;
  const amp::QuantizedAutocast scope(state);
  for (const auto& [path, module] : model.named_modules()) {
    amp::LayerScales* scales = module->layer_scales();
    if (scales == nullptr) continue;
    const autograd::ModulePathGuard inside(path);
    const amp::Recipe* recipe = amp::current_recipe();
    if (recipe == nullptr) continue;
    const amp::RoleMap<bool> used = used_scales(*recipe);
    for (const amp::Role role : amp::layer_roles) {
      if (used[role] && (*scales)[role].defined()) result[path][role] = (*scales)[role].scale;
    }
  }
  return result;
}

void restart_scales(nn::Module& model, const std::string& module, const amp::Recipe& recipe,
                    const Amaxes& amaxes) {
  const NoGrad no_grad;
  for (const auto& [path, layer] : model.named_modules()) {
    amp::LayerScales* scales = path == module ? layer->layer_scales() : nullptr;
    if (scales == nullptr) continue;
    for (const amp::Role role : amp::layer_roles) {
      const std::optional<amp::TensorRecipe>& tensor = recipe.tensors[role];
      const amp::ScaleStream& stream = (*scales)[role];
      const double amax = amaxes[role];
      if (!(amax > 0) || !std::isfinite(amax) || !stream.defined()) continue;
      if (!tensor || !tensor->is_delayed()) continue;
      const double scale =
          backend::delayed_scale(static_cast<float>(amax), static_cast<float>(tensor->format.max()),
                                 amp::delayed_rule(*tensor));
      // The history follows from what is pending.
      fill_(stream.history, 0);
      fill_(stream.scale, scale);
      fill_(stream.scale_inv, 1 / scale);
      fill_(stream.pending, amax);
    }
  }
}

}  // namespace binade::train
