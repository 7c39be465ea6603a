#pragma once

#include <memory>
#include <optional>
#include <span>

#include "binade/amp/policy.h"
#include "binade/tensor/tensor.h"

namespace binade::amp {

// What autocast does on this thread. Copied into backward closures that run ops again.
struct AutocastState {
  bool enabled = false;
  DType dtype = DType::bf16;
  std::shared_ptr<const Policy> policy;  // null: the defaults
};

const AutocastState& autocast_state();

// Runs the ops of this thread under the policy while it lives. Guards nest; enabled = false inside
// another guard switches autocast off. The type is f16 or bf16.
class Autocast {
 public:
  explicit Autocast(DType dtype, bool enabled = true,
                    std::shared_ptr<const Policy> policy = nullptr);
  // The default type of a device: f16 on CUDA, bf16 on the CPU.
  explicit Autocast(Device device, bool enabled = true);
  // Restores a state taken earlier with autocast_state().
  explicit Autocast(const AutocastState& state);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  AutocastState previous_;
};

// x as it enters `op` under the present state, all inputs of the op given to find the widest.
// Returns x itself where nothing changes. Copies of f32 leaves are kept until the outermost guard
// ends or the leaf's data changes.
Tensor cast_input(const Tensor& x, std::optional<DType> target);

// The class of `op` by this thread's policy, in the module running now.
CastClass class_of(Op op);

// The type `op` brings its floating inputs to; nothing where it takes them as they are.
// `named`: the caller named the result's type. Fails for refused ops.
std::optional<DType> input_type(Op op, std::span<const Tensor> inputs, bool named = false);

// The same for an op of the user's own with the given class.
std::optional<DType> input_type(CastClass cast, std::string_view op, std::span<const Tensor> inputs,
                                bool named = false);

// Bytes held by cached casts on this thread.
int64_t cast_cache_bytes();

// How f32 products round their operands: highest keeps f32, high rounds to TF32.
enum class MatmulPrecision : uint8_t { highest, high };
MatmulPrecision matmul_precision();
void set_matmul_precision(MatmulPrecision precision);

}  // namespace binade::amp
