#pragma once

#include <vector>

#include "binade/data/batches.h"
#include "binade/nn/language_model.h"

namespace binade::train {

// The batches that a captured step reads, in buffers of fixed addresses on the device: one for each
// micro-batch of this rank.
class GraphInputs {
 public:
  // Copies a batch for the model into the buffers of micro-batch `index`, which are made with the
  // first. Micro-batches come in their order. Fails if batches with documents follow others.
  void set(size_t index, const data::Batch& batch, nn::LanguageModel& model, Device device);
  const data::Batch& operator[](size_t index) const { return batches_[index]; }

 private:
  std::vector<data::Batch> batches_;
};

}  // namespace binade::train
