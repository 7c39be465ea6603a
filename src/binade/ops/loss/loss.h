#pragma once

#include <cstdint>
#include <optional>

#include "binade/tensor/tensor.h"

namespace binade {

enum class Reduce : uint8_t { mean, sum, none };

// The losses of single elements, reduced.
Tensor reduced_loss(const Tensor& losses, Reduce reduce);

struct CrossEntropyOptions {
  Reduce reduce = Reduce::mean;  // mean over the targets that count
  double smoothing = 0;          // label smoothing, 0 to 1
  int64_t ignore_index = -100;   // targets that do not count
  // A factor for each class [classes]; `mean` then divides by the sum of the targets' factors.
  Tensor weight = {};
  // The axis of the classes. If it is not given the target's shape says whether it is the last one
  // or axis 1, PyTorch's; a shape that fits both is refused.
  std::optional<int64_t> class_axis = {};
};

// Softmax and negative log likelihood in one pass with f32 statistics. logits [..., classes] or
// [n, classes, ...], target (i64 or i32) of their shape without the classes. The result is f32 (f64
// for f64). Targets may also be probabilities of all classes, a floating tensor of the logits'
// shape: then every row counts once, and logits of more than two axes need `class_axis`.
Tensor cross_entropy(const Tensor& logits, const Tensor& target,
                     const CrossEntropyOptions& options = {});
Tensor cross_entropy_composite(const Tensor& logits, const Tensor& target,
                               const CrossEntropyOptions& options = {});

// cross_entropy(linear(x, weight), target) in chunks of rows, so that the logits of a large
// vocabulary need little memory; the forward also computes the gradients. x [..., width], weight
// [classes, width].
Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& target,
                            const CrossEntropyOptions& options = {}, int64_t chunk_rows = 0);
// A linear layer whose results are logits.
struct HeadSize {
  int64_t classes = 0, width = 0;
  DType dtype = DType::f32;  // of the logits
  bool quantized = false;    // a GPU keeps their gradients transposed too
};
// The default chunk_rows: about 64 MiB of logits. On a GPU 384 MiB but at least 4096 rows, and 2
// GiB for a head of more weights than four layers of its width.
int64_t logits_rows(int64_t rows, const HeadSize& head, Device device);
Tensor linear_cross_entropy_composite(const Tensor& x, const Tensor& weight, const Tensor& target,
                                      const CrossEntropyOptions& options = {});

// log_probabilities [..., classes] or [n, classes, ...], as the target's shape says.
Tensor nll_loss(const Tensor& log_probabilities, const Tensor& target, Reduce reduce = Reduce::mean,
                int64_t ignore_index = -100, std::optional<int64_t> class_axis = {});
Tensor mse_loss(const Tensor& x, const Tensor& target, Reduce reduce = Reduce::mean);
Tensor l1_loss(const Tensor& x, const Tensor& target, Reduce reduce = Reduce::mean);
// Squared below `beta`, linear above.
Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, Reduce reduce = Reduce::mean,
                      double beta = 1);
Tensor huber_loss(const Tensor& x, const Tensor& target, Reduce reduce = Reduce::mean,
                  double delta = 1);
// Sigmoid and binary cross entropy in one, stable for any logit. pos_weight scales positive
// targets.
Tensor bce_with_logits(const Tensor& logits, const Tensor& target, Reduce reduce = Reduce::mean,
                       const Tensor& pos_weight = {});
// On probabilities; refused under autocast.
Tensor binary_cross_entropy(const Tensor& probabilities, const Tensor& target,
                            Reduce reduce = Reduce::mean);
// sum(target * (log target - x)) over elements; `mean` divides by the elements.
Tensor kl_div(const Tensor& x, const Tensor& target, Reduce reduce = Reduce::mean,
              bool log_target = false);

}  // namespace binade
