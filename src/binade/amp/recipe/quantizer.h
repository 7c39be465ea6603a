#pragma once

#include "binade/amp/recipe/recipe.h"
#include "binade/backend/quantize.h"
#include "binade/base/function_ref.h"
#include "binade/base/random.h"
#include "binade/tensor/quantized.h"

// Quantization of a tensor by its recipe. Not part of the public interface.
namespace binade::amp {

// The delayed scale of one role of a layer.
struct ScaleStream {
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

// The saved tensors of a stream, by the names they have in state dicts.
struct StreamBuffer {
  const char* name;
  Tensor ScaleStream::*tensor;
};
inline constexpr StreamBuffer stream_buffers[] = {{"history", &ScaleStream::history},
                                                  {"scale", &ScaleStream::scale},
                                                  {"inverse", &ScaleStream::scale_inv},
                                                  {"pending", &ScaleStream::pending},
                                                  {"dropped", &ScaleStream::dropped}};

// How the delayed scale of a tensor follows from its history.
backend::DelayedRule delayed_rule(const TensorRecipe& recipe);

// The random numbers of one call of a layer, and the transform of wgrad's operands.
struct QuantizerDraws {
  random::Key key = {};
  uint64_t first = 0;  // number of the first element
  int hadamard = 0;    // size of the transform; 0: none
  uint64_t signs = 0;  // bit i: the transform's row i is negated
};

// Quantizes the tensors of one role of a layer.
struct Quantizer {
  const TensorRecipe& recipe;
  ScaleStream& stream;  // used if the scale is delayed
  bool records_amax;    // for the next step's delayed scale
  bool transposes;      // writes the data transposed, too
  QuantizerDraws draws = {};

  // x [rows, columns].
  Quantized quantize(const Tensor& x) const;
  // A matrix that is never stored, with a delayed scale: `write` computes and quantizes it in one
  // pass.
  Quantized quantize_fused(const Shape& shape, Device device,
                           FunctionRef<void(const backend::QuantizedOutput&)> write) const;

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
  DroppedQuantized(const ScaleStream& stream, const Quantized& dropped)
      : shape(dropped.data.shape()),
        dtype(dropped.data.dtype()),
        scale(stream.scale),
        scale_inv(dropped.scale_inv) {}

  // The data as backward matmuls of the device read it: transposed on a GPU. `write` quantizes the
  // matrix.
  Quantized restored(FunctionRef<void(const backend::QuantizedOutput&)> write) const;
};

}  // namespace binade::amp
