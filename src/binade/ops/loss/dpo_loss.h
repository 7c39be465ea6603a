#pragma once

#include "binade/tensor/tensor.h"

namespace binade {

struct DpoOptions {
  double beta = 0.1;           // how much a log-probability above the reference's counts
  double label_smoothing = 0;  // the probability that a pair's labels are swapped, below 0.5
};

struct DpoLoss {
  Tensor loss;     // f32 scalar: the mean over the pairs
  Tensor rewards;  // f32 [pairs, 2]: beta * (log_probs - reference), without a gradient
};

// Direct preference optimization: with the rewards of a pair's chosen and rejected answer and
// margin = chosen - rejected, -log sigmoid(margin), and with label smoothing s
// -(1 - s) log sigmoid(margin) - s log sigmoid(-margin). Both arguments are f32 [pairs, 2]: the
// log-probabilities of the chosen and the rejected answers, by the model and by the reference,
// which gets no gradient. In f32, whatever the autocast; finite for margins of any size.
DpoLoss dpo_loss(const Tensor& log_probs, const Tensor& reference, const DpoOptions& options = {});

}  // namespace binade
