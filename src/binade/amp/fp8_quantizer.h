#pragma once

#include <utility>
#include <vector>

#include "binade/amp/fp8.h"
#include "binade/backend/quantize.h"
#include "binade/base/function_ref.h"
#include "binade/tensor/quantized.h"

// Quantization by recipe, and the scales and histories that a linear layer keeps for it. Not part
// of the public interface.
namespace binade::amp {

// The group of elements that share a scale.
ScaleGroup scale_group(const Fp8Recipe& recipe, Fp8Role role);
// True if a whole tensor shares one scale.
bool scales_per_tensor(const Fp8Recipe& recipe);

// The scale of one layer's inputs, weights, gradients or results under delayed scaling.
struct Fp8Stream {
  Tensor history;    // f32 [length], newest first
  Tensor scale;      // f32 [1]
  Tensor scale_inv;  // f32 [1]
  // f32 [1]: largest amax of the current step. Non-finite until settle() or the next roll if the
  // step's first amax is.
  Tensor pending;
  Tensor dropped;  // i32 [1]: number of non-finite amaxes
  // f32 [1]: a copy of scale_inv for a step's first quantization. Rolling writes it, which saves
  // that quantization a kernel. Not part of the saved state.
  Tensor prepared;
  bool is_prepared = false;
  // `pending` is 0, so that the step's first quantization can raise it without a kernel that
  // records its amax.
  bool has_no_amax = false;

  bool defined() const { return scale.defined(); }
  void create(int length, Device device);
  // Drops a non-finite amax of the current step from `pending`.
  void settle();
};

// Quantizes the tensors of one role of a layer: e4m3, or e5m2 for gradients of hybrid recipes.
struct Fp8Quantizer {
  const Fp8Recipe& recipe;
  Fp8Role role;
  Fp8Stream& stream;  // used by delayed scaling alone
  // Records the amax for the next step's scale, and writes transposed data too if a backward matmul
  // of the device reads it.
  bool backward_follows;
  // Leaves transposed data out, which DroppedQuantized computes when a matmul reads it.
  bool rows_only = false;

  // x [rows, columns].
  Quantized quantize(const Tensor& x) const;
  // A matrix that is never stored, under delayed scaling: `write` computes and quantizes it in one
  // pass.
  Quantized quantize_fused(const Shape& shape, Device device,
                           FunctionRef<void(const backend::QuantizedOutput&)> write) const;
  // Whether results have transposed data.
  bool writes_transposed(Device device) const;

 private:
  // Uninitialized data for a matrix, without scales.
  Quantized allocate(const Shape& shape, Device device) const;
};

// What is left of a matrix quantized with a delayed scale whose data is dropped: enough to compute
// the same data again in the same step.
struct DroppedQuantized {
  Shape shape;
  DType dtype = DType::e4m3;
  Tensor scale, scale_inv;

  DroppedQuantized() = default;
  DroppedQuantized(const Fp8Quantizer& quantizer, const Quantized& dropped)
      : shape(dropped.data.shape()),
        dtype(dropped.data.dtype()),
        scale(quantizer.stream.scale),
        scale_inv(dropped.scale_inv) {}

  // The data as backward matmuls of the device read it: transposed on a GPU. `write` quantizes the
  // matrix.
  Quantized restored(FunctionRef<void(const backend::QuantizedOutput&)> write) const;
};

// Whether kernels may quantize their own output under this recipe: scales are known beforehand, no
// matmul reads the values in another type, and no trace or observer must see them.
bool can_fuse_quantize(const Fp8Recipe& recipe);

// The FP8 state that one linear layer keeps between calls. A new data version of the weight marks a
// new step: histories roll and the weight is quantized again. So gradient accumulation, skipped
// steps and recompute need no calls.
class Fp8LinearState {
 public:
  Fp8Stream input, weight, gradient;
  // Undefined unless the layer's result is stored in FP8. Its scales are powers of two.
  Fp8Stream result;

  // Called by each forward: rolls histories if the weight changed since the last one.
  void begin(const Fp8Recipe& recipe, const Tensor& weight_tensor, bool stores_result = false);
  // The weight [out, in] for the forward, and for dgrad: transposed if groups are finer than a
  // tensor. Quantized once per step.
  const Quantized& weight_rows(const Fp8Recipe& recipe, const Tensor& weight_tensor);
  // The same under delayed scaling, for the forward alone if `rows_only`. A step's first forward
  // does not keep the data; further ones, of gradient accumulation, do.
  Quantized weight_rows_once(const Fp8Recipe& recipe, const Tensor& weight_tensor, bool rows_only);
  bool keeps_weight_rows() const { return rows_.defined(); }
  const Quantized& weight_columns(const Fp8Recipe& recipe, const Tensor& weight_tensor);

  // Rolls histories now if that is due, so that the saved state is the next step's initial state.
  void flush(const Tensor& weight_tensor);
  // flush() if that is due; else drops non-finite amaxes, so that the saved state has none.
  void before_save(const Tensor& weight_tensor);
  // Keeps the streams as they are, which were loaded: the next forward is like a first one.
  void restart();

 private:
  void forget_weight();
  std::vector<std::pair<Fp8Stream*, Fp8Role>> streams();

  std::shared_ptr<Storage> seen_storage_;  // of the weight, at the last forward
  uint64_t seen_version_ = 0;
  Fp8Recipe seen_recipe_;
  bool trained_ = false, evaluated_ = false;  // forwards of this step, with and without gradients
  bool repeated_ = false;  // the running forward is not the step's first of its kind
  Quantized rows_, columns_;
};

}  // namespace binade::amp
