#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "binade/amp/call.h"
#include "binade/amp/trace.h"
#include "binade/backend/backend.h"
#include "binade/tensor/memory_format.h"

// Helpers shared by the files of this folder. Not part of the public interface.
namespace binade::ops {

using amp::Call;
using autograd::GradSlot;
using autograd::GradSlots;
using autograd::Saved;

// One call of an op made of other ops. Casts the inputs to the policy's type, recording the casts;
// for its lifetime, autocast is off, so that the policy does not apply to the inner ops too.
class Composite {
 public:
  Composite(Op op, std::initializer_list<Tensor> inputs, bool named = false);
  const Tensor& operator[](size_t i) const { return compute_[i]; }
  // Lists the op in a running trace and returns y.
  Tensor result(const Tensor& y);

 private:
  Op op_;
  std::vector<Tensor> inputs_;
  std::vector<Tensor> compute_;
  autograd::CompositeScope scope_;
  amp::TracePause pause_;
  amp::Autocast plain_;
};

// An input saved for a backward: the tensor or, if its op offers that, the means to compute it
// again or to compute its op's gradients along with its own.
class SavedInput {
 public:
  // `matrix` has the elements of `input` in the shape that the backward reads. It is kept if it is
  // a copy, whose order may be another one.
  SavedInput(const Tensor& input, const Tensor& matrix);

  // The matrix. Call it after the input's gradient was added to `slot`: if that is the complete
  // gradient, the input's own op may use it in the same pass.
  Tensor get(const GradSlot& slot) const;

  // The matrix, if its gradient a b goes nowhere but to the input's own op, which then computes its
  // gradients in the same pass. Undefined, with nothing added to `slot`, if other code reads it
  // too.
  Tensor get_from_matmul(const GradSlot& slot, const Tensor& a, const Tensor& b) const;

 private:
  Tensor matrix_of(const Tensor& result) const {
    return result.strided(shape_, strides_, result.offset());
  }

  Saved kept_;
  std::shared_ptr<autograd::ResultRecompute> recompute_;
  Shape shape_;
  Strides strides_;
};

// Lets ops that save `result` save `recompute` instead, which the result's own backward must own.
void offer_recompute(const Tensor& result,
                     const std::shared_ptr<autograd::ResultRecompute>& recompute);

// Notes that the backward of the op that computed `result` keeps it, so that others may keep it
// without taking memory.
void mark_kept(const Tensor& result);
bool is_kept(const Tensor& x);

// Whether elementwise results are computed again instead of kept. On GPUs that costs one write of
// them, and memory limits what can be trained; CPUs are limited by arithmetic. False within
// KeepResults.
bool recomputes_results(Device device);

// A buffer like `saved` for a gradient that is computed from it element by element: `saved` itself
// if nothing else will read it, else a new one.
Tensor overwritten_or_new(const Tensor& saved);

// Gradients that a recompute already computed from `dy`.
template <class Gradients>
class EarlyGradients {
 public:
  void set(const Tensor& dy, Gradients gradients) {
    dy_ = dy;
    version_ = dy.version();
    gradients_ = std::move(gradients);
  }
  // The gradients if they are those of `dy`, which they then leave.
  std::optional<Gradients> take(const Tensor& dy) {
    const bool valid = dy_.defined() && dy_.same_as(dy) && dy.version() == version_;
    dy_ = {};
    std::optional<Gradients> gradients = std::exchange(gradients_, std::nullopt);
    return valid ? gradients : std::nullopt;
  }

 private:
  Tensor dy_;
  uint64_t version_ = 0;
  std::optional<Gradients> gradients_;
};

// Lets the op that computes the whole gradient of `result` pass its sums to `sums`, which the
// result's own backward must own.
void offer_gradient_sums(const Tensor& result, const std::shared_ptr<autograd::GradientSums>& sums);
// The receiver for the sums of a gradient in `dtype` that will be added to `slot`; null if the op
// behind it needs none, or if that gradient is not the whole one.
std::shared_ptr<autograd::GradientSums> gradient_sums(const GradSlot& slot, DType dtype);

// Each check fails with the op, the argument, the expected and the found value.
void require_defined(std::string_view op, std::string_view argument, const Tensor& x);
void require_compute(std::string_view op, std::string_view argument, const Tensor& x);
// Integers or bools.
void require_integers(std::string_view op, std::string_view argument, const Tensor& x);
void require_index(std::string_view op, std::string_view argument, const Tensor& x);
void require_rank(std::string_view op, std::string_view argument, const Tensor& x, int rank);
void require_shape(std::string_view op, std::string_view argument, const Tensor& x,
                   const Shape& shape);
void require_same_dtype(std::string_view op, const Tensor& a, const Tensor& b);
void require_finite(std::string_view op, std::string_view argument, double value);
// Refuses numbers outside [low, high], and NaN.
void require_between(std::string_view op, std::string_view argument, double value, double low,
                     double high);
// Refuses targets other than 0 to classes - 1 and ignore_index. Checks only on the CPU: a GPU would
// have to wait. `target` is dense.
void require_classes(std::string_view op, const Tensor& target, int64_t classes,
                     int64_t ignore_index);
// For arguments that are not inputs of the Call: indices, conditions, tables.
void require_device(std::string_view op, std::string_view argument, const Tensor& x,
                    const Tensor& like);

// x itself if it is dense, else a dense copy; without autograd.
Tensor dense(const Tensor& x);
// The format in which ops on x run: channels-last if x has two or three spatial axes in it and its
// device has kernels for that. With one axis the strides are those of any transposed matrix, whose
// owner did not ask for gradients of weights that are rounded once more.
MemoryFormat native_format(const Tensor& x);
// Without autograd: x itself if its elements are in this order, else a copy.
Tensor in_format(const Tensor& x, MemoryFormat format);
// The elements of x, which are in this order, in another shape of the same order.
Tensor viewed(const Tensor& x, const Shape& shape, MemoryFormat format);
// Without autograd: x in another type (x itself if it has that type), a dense view of another
// shape.
Tensor converted(const Tensor& x, DType dtype);
Tensor viewed(const Tensor& x, const Shape& shape);

// The buffer of a gradient, for kernels that overwrite or add themselves; absent if the gradient is
// not needed. The slot keeps the buffer alive. With a shape, the same elements in that shape.
backend::Target target_of(const GradSlot& slot);
backend::Target target_of(const GradSlot& slot, const Shape& shape);

// Adds the gradient of a broadcast operand: the sum over the axes it was repeated along.
void add_reduced(const GradSlot& slot, const Tensor& gradient);

// dy * act'(pre), the gradient before a fused activation [rows, width]. Also adds the gradient of
// the bias that was part of `pre`: the sum over rows.
Tensor activation_gradient(Activation activation, const Tensor& dy, const Tensor& pre,
                           const GradSlot& bias);

inline DType accumulation_type(const Tensor& x) { return binade::accumulation_type(x.dtype()); }

// The axes of x before its last two.
Shape batch_of(const Tensor& x);

// Rows times width of x, the last `axes` axes being the width.
struct Rows {
  int64_t rows;
  int64_t width;
};
Rows rows_of(const Shape& shape, int axes = 1);

}  // namespace binade::ops
