#pragma once

#include <cstdint>

#include "binade/backend/matmul.h"
#include "binade/tensor/quantized.h"

namespace binade::backend {

// How a scale follows from the largest magnitude of its group.
struct ScaleRule {
  double eps = 0;             // amax counts as at least this
  bool power_of_two = false;  // round the scale down to a power of two
};

// How a delayed scale follows from past steps.
struct DelayedRule {
  int margin = 0;            // scale = (max / amax) / 2^margin
  bool most_recent = false;  // amax is the newest of the history rather than its largest
};

// Where the codes of a matrix go: q = values * scale (f32 [1]). Where present, `transposed`
// [columns, rows] receives the same codes transposed, and `amax` (f32 [1]) grows to the values'
// largest magnitude in the same pass.
struct Codes {
  TensorView scale, q, transposed = {}, amax = {};
};

// Matrices may have any strides, so that a transpose is quantized by looking at it; q is dense.
// Casts to FP8 round to nearest even and saturate; NaN stays NaN. amax is the largest magnitude,
// infinite or NaN where an element is.
struct QuantizeKernels {
  // amax (f32 [1]) of x.
  void (*amax)(TensorView x, TensorView amax);
  void (*quantize)(TensorView x, const Codes& codes);
  // The codes of a matrix that is made on the way and stored nowhere: bit for bit those of the
  // kernel that makes it, its rounding, and quantize(). Operands are dense, f32, f16 or bf16.
  // swiglu(x) in x's type: x [rows, 2 * width], q [rows, width].
  void (*quantize_swiglu)(TensorView x, const Codes& codes);
  // swiglu_backward(dy, x) in x's type: dy [rows, width], x and q [rows, 2 * width].
  void (*quantize_swiglu_backward)(TensorView dy, TensorView x, const Codes& codes);
  // activation_backward(dy, pre_activation) in dy's type.
  void (*quantize_activation_backward)(Activation activation, TensorView dy,
                                       TensorView pre_activation, const Codes& codes);
  // The y of norm.forward in `type`, from its x or sum and its statistics (no mean: rms).
  void (*quantize_norm)(TensorView x, TensorView weight, TensorView bias, TensorView mean,
                        TensorView rstd, DType type, const Codes& codes);
  // Each group's scale is max / amax by the rule, and 1 where amax is 0 or not finite; inverse f32
  // [groups]. `transposed` as above.
  void (*quantize_groups)(TensorView x, ScaleGroup group, ScaleRule rule, TensorView q,
                          TensorView transposed, TensorView inverse);
  // Groups of 32 along rows with e8m0 scales (u8 codes): floor(log2(amax)) less the format's
  // largest exponent; a group with an element that is not finite becomes NaN as a whole.
  void (*quantize_mx)(TensorView x, TensorView q, TensorView codes);
  // x = q * inverse scale of its group (f32, or e8m0 codes in u8).
  void (*dequantize)(TensorView q, TensorView inverse, ScaleGroup group, TensorView x);
  // pending = max(pending, amax), or dropped (i32 [1]) + 1 where amax is not finite.
  void (*record_amax)(TensorView amax, TensorView pending, TensorView dropped);
  // Rolls history (f32 [n], newest first) by one, pending entering and becoming 0, and sets scale =
  // max_value / amax by the rule; an amax of 0 keeps it, an infinite scale becomes the largest
  // float.
  void (*roll)(TensorView history, TensorView pending, double max_value, DelayedRule rule,
               TensorView scale, TensorView inverse);
};

}  // namespace binade::backend
