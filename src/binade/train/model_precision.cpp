#include "binade/train/model_precision.h"

#include <algorithm>

#include "binade/amp/recipe/layer_scales.h"
#include "binade/amp/recipe/text.h"
#include "binade/base/error.h"
#include "binade/io/safetensors.h"
#include "binade/train/checkpoint.h"
#include "binade/train/config/component_options.h"

namespace binade::train {
namespace {

constexpr const char* buffer_prefix = "buffer.";

amp::AutocastState cast_of(const InferencePrecision& precision) {
  amp::AutocastState state = amp::autocast_state();
  state.enabled = uses_autocast(precision.matmul);
  if (state.enabled) state.dtype = autocast_type(precision.matmul);
  state.matmul_precision = matmul_precision(precision.matmul);
  return state;
}

amp::RecipeState recipe_of(const InferencePrecision& precision, Device device) {
  if (precision.is_quantized()) precision.recipe.check_device(device);
  return {.enabled = precision.is_quantized(), .recipe = precision.recipe};
}

// Buffers of layers' delayed scales, as a checkpoint of a run with a recipe has them.
StateDict saved_scales(const std::filesystem::path& folder) {
  StateDict scales;
  const std::filesystem::path path = folder / trainer_state_file;
  if (!std::filesystem::exists(path)) return scales;
  const io::SafetensorsFile file(path);
  for (const io::TensorEntry& entry : file.entries()) {
    if (entry.name.starts_with(buffer_prefix))
      scales[entry.name.substr(std::string_view(buffer_prefix).size())] = file.load(entry);
  }
  return scales;
}

bool needs_scales(const amp::Recipe& recipe) {
  if (!recipe.matmuls.forward) return false;
  return recipe[amp::Role::input].is_delayed() || recipe[amp::Role::weight].is_delayed();
}

}  // namespace

bool InferencePrecision::depends_on_batch() const {
  if (!is_quantized() || !recipe.matmuls.forward) return false;
  const amp::TensorRecipe& input = recipe[amp::Role::input];
  const bool has_tensor_scale = input.is_per_tensor() || input.layout().outer == ScaleGroup{};
  return recipe.has_head() || (has_tensor_scale && !input.is_delayed());
}

InferenceScope::InferenceScope(const InferencePrecision& precision, Device device)
    : cast_(cast_of(precision)), quantized_(recipe_of(precision, device)) {}

void load_scales(nn::LanguageModel& model, const std::filesystem::path& folder,
                 const InferencePrecision& precision, std::string_view caller) {
  if (!precision.is_quantized() || !needs_scales(precision.recipe)) return;
  const StateDict scales = saved_scales(folder);
  const bool found = std::any_of(scales.begin(), scales.end(), [](const auto& entry) {
    return entry.first.ends_with(amp::buffer_name(amp::Role::input, "history"));
  });
  if (!found)
    fail(caller,
         {.argument = "--precision fp8 by recipe " + amp::to_text(precision.recipe),
          .expected = "a checkpoint with its delayed scales, of a run with that recipe",
          .found = "none in " + folder.string(),
          .hint = "recipes row, block, mx and those of 4 and 6 bits take scales from the values: "
                  "--recipe row"});
  model.load_state_dict(scales, false);
}

}  // namespace binade::train
