#include "binade/train/graph_inputs.h"

#include "binade/backend/transfer.h"
#include "binade/base/error.h"
#include "binade/ops/attention/attention.h"

namespace binade::train {
namespace {

Tensor buffer_for(const Tensor& x, Device device) {
  return x.defined() ? Tensor::empty(x.shape(), x.dtype(), device) : Tensor();
}

}  // namespace

void GraphInputs::set(size_t index, const data::Batch& batch, nn::LanguageModel& model,
                      Device device) {
  Tensor bounds;
  if (!batch.documents.empty()) {
    model.check_documents(batch.documents, batch.tokens.shape());
    bounds = document_bounds(batch.documents);
  }
  if (index == batches_.size()) {
    batches_.push_back({.tokens = buffer_for(batch.tokens, device),
                        .targets = buffer_for(batch.targets, device),
                        .weight = buffer_for(batch.weight, device),
                        .document_bounds = buffer_for(bounds, device),
                        .reference = buffer_for(batch.reference, device)});
  }
  const data::Batch& input = batches_[index];
  if (bounds.defined() != input.document_bounds.defined())
    fail("train", {.argument = "documents",
                   .expected = "in all batches or in none, as the step was captured",
                   .found = bounds.defined() ? "some" : "none"});
  backend::transfer(batch.tokens, input.tokens);
  backend::transfer(batch.targets, input.targets);
  if (batch.weight.defined()) backend::transfer(batch.weight, input.weight);
  if (bounds.defined()) backend::transfer(bounds, input.document_bounds);
  if (batch.reference.defined()) backend::transfer(batch.reference, input.reference);
}

}  // namespace binade::train
