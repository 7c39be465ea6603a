#pragma once

#include <functional>
#include <span>
#include <vector>

#include "binade/base/restore.h"
#include "binade/tensor/tensor.h"

namespace binade {

// Recompute (activation checkpointing): runs `fn` without saving activations; the backward runs
// `fn` again to get them. Trades time for memory. The second run has the execution state of the
// first (base/execution.h: autocast, recipe, module path, random streams and the rest), so results
// and gradients are bit for bit those of a plain call.
Tensor checkpoint(const std::function<Tensor(std::span<const Tensor>)>& fn,
                  std::span<const Tensor> inputs);
Tensor checkpoint(const std::function<Tensor(std::span<const Tensor>)>& fn,
                  std::initializer_list<Tensor> inputs);
// For functions with several results. `parameters`, if given, are all leaves that fn uses: hooks of
// their gradients then run as soon as these are finished, instead of after all recomputed parts.
std::vector<Tensor> checkpoint_many(std::function<std::vector<Tensor>(std::span<const Tensor>)> fn,
                                    std::span<const Tensor> inputs,
                                    std::span<const Tensor> parameters = {});

// On GPUs the backward computes results of activations and quantized data again instead of keeping
// them from the forward. While this lives, forwards on this thread keep them: faster, more memory.
// The quantized data of norms, which cost as much to keep, are still computed again. On CPUs all
// are kept.
class KeepResults {
 public:
  explicit KeepResults(bool keep = true);

 private:
  Restore<bool> restore_;
};

}  // namespace binade
