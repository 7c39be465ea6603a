#pragma once

#include <memory>
#include <optional>
#include <span>

#include "binade/amp/policy.h"
#include "binade/base/restore.h"
#include "binade/tensor/tensor.h"

namespace binade::amp {

// How f32 matmuls round their operands, by PyTorch's names: highest keeps f32, high rounds to TF32.
enum class MatmulPrecision : uint8_t { highest, high };

// A thread's autocast state: a part of its execution state (base/execution.h), in which recompute
// and the backward of a custom op run as in their forward.
struct AutocastState {
  bool enabled = false;
  DType dtype = DType::bf16;
  std::shared_ptr<const Policy> policy;  // null: the defaults
  MatmulPrecision matmul_precision = MatmulPrecision::highest;
};

const AutocastState& autocast_state();
// This thread's state with autocast disabled.
AutocastState disabled_autocast();
MatmulPrecision matmul_precision();

struct AutocastOptions {
  bool enabled = true;                             // false disables autocast inside another guard
  std::shared_ptr<const Policy> policy = nullptr;  // null: that of the guard around
};

// For its lifetime, ops of this thread run under the policy. Guards nest and inherit the matmul
// precision.
class Autocast {
 public:
  // The dtype is f16 or bf16.
  explicit Autocast(DType dtype, const AutocastOptions& options = {});
  // The default dtype of a device: f16 on CUDA, bf16 on the CPU.
  explicit Autocast(Device device, const AutocastOptions& options = {});
  // Exactly this state; nothing is inherited.
  explicit Autocast(const AutocastState& state);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  Restore<AutocastState> state_;
};

// For its lifetime, f32 matmuls of this thread run in the given precision; their backwards and
// recomputes follow them. PyTorch's set_float32_matmul_precision, with a scope.
class MatmulPrecisionGuard {
 public:
  explicit MatmulPrecisionGuard(MatmulPrecision precision);

 private:
  Restore<MatmulPrecision> precision_;
};

// x converted to `target` if x is f32, f16 or bf16; else, or without a target, x itself. Records no
// gradient. The autocast copy of an f32 leaf that requires a gradient is cached until the leaf's
// data changes or the outermost guard ends.
Tensor cast_input(const Tensor& x, std::optional<DType> target);

// The class of `op` by this thread's policy, in the current module.
CastClass class_of(Op op);

// The type `op` brings its floating inputs to; none if it takes them as they are. `named`: the
// caller named the result's type. Fails for refused ops.
std::optional<DType> input_type(Op op, std::span<const Tensor> inputs, bool named = false);

// The same for a user's op with the given class.
std::optional<DType> input_type(CastClass cast, std::string_view op, std::span<const Tensor> inputs,
                                bool named = false);

// Bytes held by cached casts on this thread.
int64_t cast_cache_bytes();

}  // namespace binade::amp
