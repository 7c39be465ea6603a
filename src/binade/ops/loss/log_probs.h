#pragma once

#include "binade/tensor/tensor.h"

namespace binade {

// The log-probabilities of tokens [...] by the logits before them [..., vocab], in f32 over the
// whole vocabulary: the negated cross entropy of each, so these are what losses are sums of, bit
// for bit. Tokens of -100 have 0.
Tensor token_log_probs(const Tensor& logits, const Tensor& tokens);

}  // namespace binade
