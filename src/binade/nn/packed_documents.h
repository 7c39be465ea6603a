#pragma once

#include <utility>
#include <vector>

#include "binade/tensor/tensor.h"

namespace binade::nn {

// Documents in a flattened batch that do not see one another, as AttentionOptions has them. None:
// each sequence is one.
struct PackedDocuments {
  std::vector<int64_t> offsets = {};  // from 0 to batch * tokens
  // The offsets on the device, document_bounds(offsets). Without `offsets`, nothing is read on the
  // host, so that a captured step can be replayed with other bounds; the caller that writes them
  // checks the offsets.
  Tensor bounds = {};

  PackedDocuments() = default;
  PackedDocuments(std::vector<int64_t> given, Tensor on_device = {})  // NOLINT: implicit
      : offsets(std::move(given)), bounds(std::move(on_device)) {}

  bool empty() const { return offsets.empty() && !bounds.defined(); }
};

}  // namespace binade::nn
