#pragma once

#include "binade/data/tokens.h"
#include "binade/tensor/tensor.h"

namespace binade::data {

struct Batch {
  Tensor tokens;   // i64 [batch, context]
  Tensor targets;  // the same, one token later
};

struct BatchShape {
  int64_t batch = 1;
  int64_t context = 1;
};

// Sequences from random places: a pure function of (seed, step, micro), so that there is no
// position to save.
Batch training_batch(const Tokens& tokens, BatchShape shape, uint64_t seed, int64_t step,
                     int64_t micro);

// Batch `index` of `count` that together are spread evenly over the tokens, always the same ones.
Batch validation_batch(const Tokens& tokens, BatchShape shape, int64_t index, int64_t count);

// Sequences one after another from token `begin` on: without overlap, so that a walk over all of
// them predicts every token once.
Batch consecutive_batch(const Tokens& tokens, BatchShape shape, int64_t begin);

}  // namespace binade::data
