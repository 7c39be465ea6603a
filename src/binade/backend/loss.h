#pragma once

#include <cstdint>

#include "binade/backend/quantize.h"
#include "binade/tensor/tensor.h"

namespace binade::backend {

// Label-smoothed cross entropy of logits [rows, classes], whose rows may have any stride, and
// target [rows], i64 or i32. The loss of a row is 0 if its target is ignore_index.
struct CrossEntropyForward {
  TensorView logits;
  TensorView target;
  double smoothing = 0;
  int64_t ignore_index;
  TensorView losses;    // [rows], f32 (f64 for f64)
  TensorView lse = {};  // [rows], kept for the backward; cross_entropy_to_gradient needs none
  // Of cross_entropy_to_gradient alone, optional: where it writes dlogits, rounded to the logits'
  // type and quantized. Columns of `data` past the classes become 0. Its rows may lie in the memory
  // of the logits' rows, and `transposed` needs `data`; there is no amax.
  QuantizedOutput quantized = {};
};

// dlogits = (softmax - smoothed target) * dlosses[row]. They have the strides of the logits and may
// overwrite them.
struct CrossEntropyBackward {
  TensorView dlosses;
  TensorView logits;
  TensorView target;
  TensorView lse;
  double smoothing = 0;
  int64_t ignore_index;
  TensorView dlogits;
};

// The cross entropy of a linear layer's results x [rows, k] weight^T. The weight [n, k] may have
// more rows than there are classes.
struct LinearCrossEntropy {
  TensorView x;
  TensorView weight;
  // Its logits [rows, classes], rows of n elements, receive dlogits / factors[row] for dlosses of
  // 1, and 0 past the classes. lse and quantized are not used.
  CrossEntropyForward loss;
  TensorView factors;  // [rows], f32
};

// Connectionist temporal classification of log-probabilities [time, batch, classes] and targets
// [batch, length], i64. All tensors are dense; the floating ones are f32, or all are f64.
struct Ctc {
  TensorView log_probs;
  TensorView targets;
  const int64_t* input_lengths;   // [batch], on the host
  const int64_t* target_lengths;  // the same
  int64_t blank = 0;
  TensorView losses;  // [batch]; infinite if no path fits
  TensorView alpha;   // [batch, time, 2 * length + 1], kept for the backward
};

struct CtcBackward {
  Ctc forward;
  TensorView dlosses;     // [batch]
  TensorView dlog_probs;  // zeros for entries with an infinite loss
};

struct LossKernels {
  void (*cross_entropy)(const CrossEntropyForward& args);
  void (*cross_entropy_backward)(const CrossEntropyBackward& args);
  // Forward and backward for dlosses of 1, in one pass if the device can: logits become dlogits.
  void (*cross_entropy_to_gradient)(const CrossEntropyForward& args);
  // Number of targets that are not ignore_index, as f32 [1].
  void (*count_targets)(TensorView target, int64_t ignore_index, TensorView count);
  // GPUs have none: the op computes on the host.
  void (*ctc)(const Ctc& args) = nullptr;
  void (*ctc_backward)(const CtcBackward& args) = nullptr;
};

}  // namespace binade::backend
