#pragma once

#include <vector>

#include "binade/ops/loss/loss.h"

namespace binade {

// Numbers of frames and of labels of each batch entry.
struct CtcLengths {
  std::vector<int64_t> input, target;
};

struct CtcOptions {
  Reduce reduce = Reduce::mean;  // of each loss divided by its target's length, at least 1
  int64_t blank = 0;
  bool zero_infinity = false;  // a target that is too long for its input gives 0 instead of inf
};

// Connectionist temporal classification (Graves et al. 2006). log_probs [time, batch, classes] are
// log-probabilities, such as log_softmax gives; targets [batch, length], i64, hold labels other
// than the blank. Sums run in f32 (f64 for f64), and so is the result. The gradient is that of the
// formula: PyTorch adds exp(log_probs), which log_softmax's gradient takes away again. A GPU's
// tensors are computed on the host, which waits.
Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const CtcLengths& lengths,
                CtcOptions options = {});

}  // namespace binade
