#pragma once

#include "binade/ops/loss/loss.h"

namespace binade {

// Losses with a margin between right and wrong. Targets y are +1 or -1 unless stated otherwise.

// log(1 + exp(-y x)).
Tensor soft_margin_loss(const Tensor& x, const Tensor& y, Reduce reduce = Reduce::mean);
// max(0, -y (a - b) + margin).
Tensor margin_ranking_loss(const Tensor& a, const Tensor& b, const Tensor& y, double margin = 0,
                           Reduce reduce = Reduce::mean);
// max(0, |anchor - positive| - |anchor - negative| + margin), distances along the last axis.
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           double margin = 1, Reduce reduce = Reduce::mean);
// Mean over the other classes of max(0, margin - x[target] + x[class]); x [rows, classes], target
// i64 or i32 [rows].
Tensor multi_margin_loss(const Tensor& x, const Tensor& target, double margin = 1,
                         Reduce reduce = Reduce::mean);
// x where y is 1, max(0, margin - x) where y is -1.
Tensor hinge_embedding_loss(const Tensor& x, const Tensor& y, double margin = 1,
                            Reduce reduce = Reduce::mean);

}  // namespace binade
