#pragma once

#include <filesystem>

#include "binade/amp/autocast.h"
#include "binade/amp/recipe/state.h"
#include "binade/nn/language_model.h"
#include "binade/train/config/config.h"

namespace binade::train {

// What the matmuls of a trained model are computed in; the recipe counts if they are quantized.
struct InferencePrecision {
  Precision matmul = Precision::fp32;
  amp::Recipe recipe = amp::recipes::delayed();

  bool is_quantized() const { return matmul == Precision::quantized; }
  // Whether the results for one sequence depend on the others of its batch: a tensor's values then
  // share a scale that is taken from all of them.
  bool depends_on_batch() const;
};

// For its lifetime, models of this thread run in a precision, as they do in training.
class InferenceScope {
 public:
  // Fails if the device cannot run the recipe.
  InferenceScope(const InferencePrecision& precision, Device device);

 private:
  amp::Autocast cast_;
  amp::QuantizedAutocast quantized_;
};

// Prepares a model that was loaded from `folder` for a precision: delayed scales are those of the
// checkpoint. Fails as `caller` if the recipe needs scales and the folder has none.
void load_scales(nn::LanguageModel& model, const std::filesystem::path& folder,
                 const InferencePrecision& precision, std::string_view caller);

}  // namespace binade::train
