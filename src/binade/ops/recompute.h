#pragma once

#include <functional>
#include <span>
#include <vector>

#include "binade/tensor/tensor.h"

namespace binade {

// Runs `fn` without keeping what its backward needs; the backward runs `fn` again for it. Trades
// time for memory. The second run sees the same autocast state, module path and random streams, so
// results and gradients are bit for bit those of a plain call.
Tensor checkpoint(const std::function<Tensor(std::span<const Tensor>)>& fn,
                  std::span<const Tensor> inputs);
Tensor checkpoint(const std::function<Tensor(std::span<const Tensor>)>& fn,
                  std::initializer_list<Tensor> inputs);
// For functions with several results.
std::vector<Tensor> checkpoint_many(std::function<std::vector<Tensor>(std::span<const Tensor>)> fn,
                                    std::span<const Tensor> inputs);

}  // namespace binade
