#include "binade/amp/recipe/layer_facts.h"

#include "binade/backend/capabilities.h"

namespace binade::amp {

LayerFacts facts_of(const Recipe& recipe, const LayerUse& use) {
  recipe.check_device(use.device);
  const Matmuls& matmuls = recipe.matmuls;
  const auto has = [&](Role role) { return recipe.tensors[role].has_value(); };
  LayerFacts facts;
  facts.can_fuse = recipe.is_delayed() && matmuls.all();
  for (const Role role : {Role::input, Role::weight, Role::gradient}) {
    const bool read_along_columns = role == Role::weight ? matmuls.dgrad : matmuls.wgrad;
    const bool is_transformed = recipe.wgrad_hadamard > 0 && matmuls.wgrad && role != Role::weight;
    facts.serves_both_axes[role] = has(role) && recipe[role].is_per_tensor() && !is_transformed;
    facts.transposes[role] = backend::capabilities(use.device).needs_transposed_quantized &&
                             facts.serves_both_axes[role] && read_along_columns;
  }
  facts.quantizes_input = matmuls.forward || (matmuls.wgrad && facts.serves_both_axes[Role::input]);
  facts.requantizes = use.recomputes_results && facts.can_fuse;
  facts.drops_weight_rows =
      facts.requantizes ||
      (has(Role::weight) && recipe[Role::weight].is_delayed() && facts.transposes[Role::weight]);
  facts.stores_result = use.feeds_swiglu && recipe.stores_hidden();
  return facts;
}

}  // namespace binade::amp
