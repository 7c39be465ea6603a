#pragma once

#include "binade/amp/recipe/layer_facts.h"
#include "binade/amp/recipe/quantizer.h"

// Not part of the public interface.
namespace binade::amp {

// The name of a role's buffer in a layer's state dict: "scales.input.history".
std::string buffer_name(Role role, std::string_view buffer);
// The present name of a buffer that an earlier version saved; other names stay as they are.
std::string current_buffer_name(const std::string& saved);

// The state that one linear layer keeps between calls under a recipe: a stream of delayed scales
// per role, and the quantized weight. A new data version of the weight marks a new step: histories
// roll and the weight is quantized again. So gradient accumulation, skipped steps and recompute
// need no calls.
class LayerScales {
 public:
  ScaleStream& operator[](Role role) { return streams_[role]; }

  // Called by each forward: creates streams that are missing, and rolls histories if the weight
  // changed since the last one.
  void begin(const Recipe& recipe, const LayerFacts& facts, const Tensor& weight);
  // The weight [out, in] for the forward, and for dgrad: transposed if its data serve one axis
  // alone. Quantized once per step.
  const Quantized& weight_rows(const Recipe& recipe, const LayerFacts& facts, const Tensor& weight);
  const Quantized& weight_columns(const Recipe& recipe, const LayerFacts& facts,
                                  const Tensor& weight);
  // weight_rows() with a delayed scale, for the forward alone if `rows_only`. A step's first
  // forward does not keep the data; further ones, of gradient accumulation, do.
  Quantized weight_rows_once(const Recipe& recipe, const LayerFacts& facts, const Tensor& weight,
                             bool rows_only);
  bool keeps_weight_rows() const { return rows_.defined(); }

  // Rolls histories now if that is due, so that the saved state is the next step's initial state.
  void flush(const Tensor& weight);
  // flush() if that is due; else drops non-finite amaxes, so that the saved state has none.
  void before_save(const Tensor& weight);
  // Keeps the streams as they are, which were loaded: the next forward is like a first one.
  void restart();

 private:
  void forget_weight();

  RoleMap<ScaleStream> streams_;
  std::shared_ptr<Storage> seen_storage_;  // of the weight, at the last forward
  uint64_t seen_version_ = 0;
  Recipe seen_recipe_;
  bool trained_ = false, evaluated_ = false;  // forwards of this step, with and without gradients
  bool repeated_ = false;  // the running forward is not the step's first of its kind
  Quantized rows_, columns_;
};

}  // namespace binade::amp
