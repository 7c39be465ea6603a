#pragma once

#include <cstdint>

#include "binade/tensor/tensor.h"

namespace binade::backend {

struct LossKernels {
  // logits [rows, classes], rows as far apart as they like, target i64/i32 [rows]. losses [rows]
  // f32: label-smoothed cross entropy, 0 where the target is ignore_index. lse [rows] f32 is kept
  // for the backward.
  void (*cross_entropy)(TensorView logits, TensorView target, double smoothing,
                        int64_t ignore_index, TensorView losses, TensorView lse);
  // dlogits = (softmax - smoothed target) * dlosses[row]; they lie as logits do, and may be written
  // over those.
  void (*cross_entropy_backward)(TensorView dlosses, TensorView logits, TensorView target,
                                 TensorView lse, double smoothing, int64_t ignore_index,
                                 TensorView dlogits);
  // Both for row gradients of 1, in one pass where the device can: losses as cross_entropy makes
  // them, and logits become dlogits.
  void (*cross_entropy_to_gradient)(TensorView logits, TensorView target, double smoothing,
                                    int64_t ignore_index, TensorView losses);
  // Number of targets that are not ignore_index, as f32 [1].
  void (*count_targets)(TensorView target, int64_t ignore_index, TensorView count);
};

}  // namespace binade::backend
