#pragma once

#include <cstdint>
#include <span>

#include "binade/backend/matmul.h"
#include "binade/base/random.h"
#include "binade/tensor/quantized.h"

namespace binade::backend {

// How a scale follows from the largest magnitude of its group.
struct ScaleRule {
  double eps = 0;             // lower bound of amax
  bool power_of_two = false;  // round the scale down to a power of two
};

// How a delayed scale follows from past steps.
struct DelayedRule {
  int margin = 0;             // scale = (max / amax) / 2^margin
  bool most_recent = false;   // use the newest amax of the history instead of its largest
  bool power_of_two = false;  // round the scale down to a power of two
};

// A matrix quantized with a given scale: data = values * scale.
struct QuantizedOutput {
  TensorView scale;  // f32 [1]
  // Either or both of the same data.
  TensorView data = {};        // [rows, columns]
  TensorView transposed = {};  // [columns, rows]
  // Optional.
  TensorView amax = {};  // f32 [1]: becomes the maximum of itself and the values' magnitudes

  DType dtype() const { return data.present ? data.dtype : transposed.dtype; }
  int64_t rows() const { return data.present ? data.shape[0] : transposed.shape[1]; }
  int64_t columns() const { return data.present ? data.shape[1] : transposed.shape[0]; }
};

// A matrix as it is stored: values, or quantized data that stand for data * scale_inv, rounded to
// `dtype`.
struct StoredMatrix {
  TensorView data;
  TensorView scale_inv =
      {};  // f32 [1], of quantized data: a power of two, so that bf16 values are exact
  DType dtype = data.dtype;  // of the values

  StoredMatrix(TensorView values) : data(values) {}  // NOLINT: implicit, as most are values
  StoredMatrix(const Tensor& values) : StoredMatrix(TensorView(values)) {}  // NOLINT
  StoredMatrix(TensorView data, TensorView scale_inv, DType dtype)
      : data(data), scale_inv(scale_inv), dtype(dtype) {}
  bool is_quantized() const { return binade::is_quantized(data.dtype); }
};

// A matrix quantized with scales from its own values, one per group.
struct GroupQuantizedOutput {
  ScaleGroup group = {};
  ScaleRule rule = {};
  TensorView data;             // [rows, columns]
  TensorView transposed = {};  // optional, [columns, rows]: the same data
  TensorView scale_inv;        // f32 [groups]
};

// How a group's scale follows from its amax: see amp::ScaleRule.
enum class GroupRule : uint8_t {
  largest,
  power_of_two,
  mx_floor,
  mx_ceil,
  mx_round_up,
  two_levels,  // as Transformer Engine computes NVFP4: see nv_tensor_scale
};

// How quantize_coded() quantizes a matrix.
struct GroupCoding {
  GroupRule rule = GroupRule::largest;
  double eps = 0;              // lower bound of amax
  bool four_over_six = false;  // of two_levels: the better of two scales, see amp::TensorRecipe
  // Before all else each run of `hadamard` columns, if there are any, is multiplied by a Hadamard
  // matrix (Sylvester's, orthonormal) whose rows have the signs of `signs`, and all values are
  // rounded to bf16. Columns that fill no run are rounded alone.
  int hadamard = 0;
  uint64_t signs = 0;
  // Element i of the matrix draws random::bits(key, first + i).
  bool stochastic = false;
  random::Key key = {};
  uint64_t first = 0;
};

// A Quantized: see there.
struct QuantizedView {
  QuantizedLayout layout;
  Shape shape;
  TensorView data, scale_inv;
  TensorView outer_inv = {};

  explicit QuantizedView(const Quantized& q)
      : layout(q.layout),
        shape(q.shape),
        data(q.data),
        scale_inv(q.scale_inv),
        outer_inv(q.outer_inv) {}
  // Data in a type of its own, with one level of scales: f32, or e8m0 in u8.
  QuantizedView(TensorView data, TensorView scale_inv, ScaleGroup group)
      : layout{.format = format_of(data.dtype),
               .group = group,
               .scale = scale_inv.dtype == DType::u8 ? formats::spec::e8m0 : formats::spec::f32},
        shape(data.shape),
        data(data),
        scale_inv(scale_inv) {}
};

// The operands of norm.forward's y: y = (x - mean) * rstd * weight + bias, rounded to `dtype`.
struct NormOperands {
  TensorView x;  // its sum if a residual was added
  TensorView weight, bias;
  TensorView mean;  // absent for rms
  TensorView rstd;
  DType dtype;
};

// The operands of a rotary embedding of some heads: see RotaryEmbedding.
struct RotatedHeads {
  TensorView x;     // [batch, tokens, heads, dim], dense
  int64_t rotated;  // the number of its first heads that are rotated; the others stay as they are
  TensorView cosine, sine;
  int64_t start = 0;
  bool inverse = false;
};

// The delayed scale of one stream of tensors.
struct DelayedScale {
  TensorView history;           // f32 [steps]: amaxes, newest first
  TensorView pending;           // f32 [1]: amax of the current step
  TensorView dropped;           // i32 [1]: number of non-finite amaxes
  TensorView scale, scale_inv;  // f32 [1]
  double max_value;             // of the data's type
  DelayedRule rule = {};
  TensorView prepared = {};  // optional, f32 [1]: becomes a copy of the new scale_inv
};

// Inputs may have any strides (a transpose is quantized as a view); quantized data is dense. Finite
// values round to nearest even and saturate. Others must not pass unseen: NaN stays NaN, an
// infinity stays one in e5m2 and becomes NaN in e4m3. amax is the largest magnitude: infinite or
// NaN if an element is.
struct QuantizeKernels {
  // amax (f32 [1]) of x.
  void (*amax)(TensorView x, TensorView amax);
  void (*quantize)(TensorView x, const QuantizedOutput& out);

  // The next five quantize a matrix that is computed on the fly and never stored. The result is bit
  // for bit that of the kernel that computes it, rounding included, followed by quantize().
  // Operands are dense, f32, f16 or bf16; x of the first two may be stored in e4m3.

  // swiglu(x) in x's type: x [rows, 2 * width], out [rows, width].
  void (*quantize_swiglu)(const StoredMatrix& x, const QuantizedOutput& out);
  // swiglu_backward(dy, x) in x's type: dy [rows, width], x and out [rows, 2 * width]. If
  // `gated` has an output (e4m3, without an amax), quantize_swiglu(x, gated) runs in the same pass.
  void (*quantize_swiglu_backward)(TensorView dy, const StoredMatrix& x, const QuantizedOutput& out,
                                   const QuantizedOutput& gated);
  // activation_backward(dy, pre_activation) in dy's type.
  void (*quantize_activation_backward)(Activation activation, TensorView dy,
                                       TensorView pre_activation, const QuantizedOutput& out);
  void (*quantize_norm)(const NormOperands& norm, const QuantizedOutput& out);
  // rope in x's type: out [batch * tokens, heads * dim].
  void (*quantize_rope)(const RotatedHeads& heads, const QuantizedOutput& out);

  // Each group's scale is max / amax by the rule, or 1 if amax is 0 or non-finite.
  void (*quantize_groups)(TensorView x, const GroupQuantizedOutput& out);
  // Groups of 32 along rows with e8m0 scales (u8): scale_inv has the exponent floor(log2(amax))
  // minus the format's largest exponent. A group with a non-finite element becomes NaN. GPUs write
  // e4m3 and e5m2 alone.
  void (*quantize_mx)(TensorView x, const QuantizedView& out);
  // Any format, group and scale. A group with a non-finite element becomes NaN. Null on GPUs.
  void (*quantize_coded)(TensorView x, const GroupCoding& coding, const QuantizedView& out);
  // x = data * scale_inv of its group * outer_inv of its outer group. GPUs read e4m3 and e5m2 with
  // one level of scales, f32 or e8m0.
  void (*dequantize)(const QuantizedView& q, TensorView x);
  // pending = max(pending, amax), or dropped (i32 [1]) + 1 if amax is non-finite. A step's first
  // quantization may have raised `pending` itself: if that is non-finite, it becomes 0 and is
  // counted as dropped, also without an `amax`.
  void (*record_amax)(TensorView amax, TensorView pending, TensorView dropped);
  // For each stream: shifts the history by one step, puts `pending` in front (0 if it is
  // non-finite, which counts as dropped), resets it to 0, and sets scale = max_value / amax by the
  // rule. An amax of 0 keeps the scale; an infinite scale becomes the largest float.
  void (*roll)(std::span<const DelayedScale> streams);
};

}  // namespace binade::backend
