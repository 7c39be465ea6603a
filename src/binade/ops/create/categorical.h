#pragma once

#include <optional>

#include "binade/base/random.h"
#include "binade/tensor/tensor.h"

namespace binade {

// index (i64 or i32) [...] as i64 [..., classes]: 1 at each index, 0 elsewhere. Without `classes`
// the largest index decides, which waits for a GPU.
Tensor one_hot(const Tensor& index, std::optional<int64_t> classes = {});

struct MultinomialOptions {
  bool replacement = false;             // whether a category may be drawn more than once
  std::optional<random::Key> key = {};  // none: the next one of this thread
};

// `samples` indices (i64) per row of weights [categories] or [rows, categories], drawn with
// probabilities proportional to the weights. A pure function of the key. Waits for a GPU.
Tensor multinomial(const Tensor& weights, int64_t samples, MultinomialOptions options = {});

}  // namespace binade
