#pragma once

#include <vector>

#include "binade/data/tokens.h"
#include "binade/tensor/tensor.h"

namespace binade::data {

struct Batch {
  Tensor tokens;   // i64 [batch, context]
  Tensor targets;  // the same, shifted by one token; -100 for those that do not count
  // For batches of documents: f32 [], the targets that count, relative to their mean over the
  // batches of the same step.
  Tensor weight = {};
  // Offsets of documents that do not see one another, in the flattened batch; empty: each row is
  // one. The last is the number of tokens.
  std::vector<int64_t> documents = {};
  // For a batch on a GPU: document_bounds(documents); `documents` may then be empty.
  Tensor document_bounds = {};
  // For batches of pairs, whose rows 2i and 2i + 1 are the answers of pair i: the log-probabilities
  // of both by the reference model, f32 [pairs, 2].
  Tensor reference = {};
};

struct BatchShape {
  int64_t batch = 1;  // sequences, or pairs of them
  int64_t context = 1;
  int64_t accumulate = 1;  // batches of a step
};

// Sequences from random positions, or documents if the tokens have any: a pure function of (seed,
// step, micro), so a checkpoint needs no position in the data. Of mixed tokens (Tokens::mixed) each
// sequence is from a source drawn by its weight.
Batch training_batch(const Tokens& tokens, BatchShape shape, uint64_t seed, int64_t step,
                     int64_t micro);

// The tokens that all batches of a step hold: inputs of the model from the data. Padding after
// documents does not count; prompts, whose tokens are not targets, do.
int64_t training_tokens(const Tokens& tokens, BatchShape shape, uint64_t seed, int64_t step);

// Batch `index` of `count` fixed ones, which together are spread evenly over the tokens. Of mixed
// tokens each source has a share of the sequences by its weight.
Batch validation_batch(const Tokens& tokens, BatchShape shape, int64_t index, int64_t count);

// Consecutive sequences from token `begin` on, without overlap: a pass over all of them predicts
// every token once.
Batch consecutive_batch(const Tokens& tokens, BatchShape shape, int64_t begin);

}  // namespace binade::data
