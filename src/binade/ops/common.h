#pragma once

#include "binade/amp/call.h"
#include "binade/amp/trace.h"
#include "binade/backend/backend.h"

// What the files of this folder share. Not part of the public interface.
namespace binade::ops {

using amp::Call;
using autograd::GradSlot;
using autograd::GradSlots;
using autograd::Saved;

// One call of an op made of other ops. Brings the inputs to the policy's type by recorded casts,
// and switches autocast off while it lives: what the op is made of is nobody's business but its
// own.
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

// Checks that fail naming the op, the argument, what was expected and what was found.
void require_defined(std::string_view op, std::string_view argument, const Tensor& x);
void require_compute(std::string_view op, std::string_view argument, const Tensor& x);
void require_index(std::string_view op, std::string_view argument, const Tensor& x);
void require_rank(std::string_view op, std::string_view argument, const Tensor& x, int rank);
void require_shape(std::string_view op, std::string_view argument, const Tensor& x,
                   const Shape& shape);
void require_same_dtype(std::string_view op, const Tensor& a, const Tensor& b);
void require_finite(std::string_view op, std::string_view argument, double value);
// A number from low to high; NaN never is.
void require_between(std::string_view op, std::string_view argument, double value, double low,
                     double high);
// Targets are classes below `classes` or ignore_index. Looks where that is cheap: on the CPU.
// `target` is dense.
void require_classes(std::string_view op, const Tensor& target, int64_t classes,
                     int64_t ignore_index);
// For arguments that are no input of the call: indices, conditions, tables.
void require_device(std::string_view op, std::string_view argument, const Tensor& x,
                    const Tensor& like);

// x itself where it is dense, else a dense copy; without autograd.
Tensor dense(const Tensor& x);
// Without autograd: x in another type (itself where it has it), a dense view of another shape.
Tensor converted(const Tensor& x, DType dtype);
Tensor viewed(const Tensor& x, const Shape& shape);

// Gives a broadcast operand's slot its gradient: the sum over the axes it was repeated along.
void add_reduced(const GradSlot& slot, const Tensor& gradient);

// dy * act'(pre), the gradient before a fused activation [rows, width]; gives the bias added there
// its gradient too, the sum over rows.
Tensor activation_gradient(Activation activation, const Tensor& dy, const Tensor& pre,
                           const GradSlot& bias);

// The type statistics of x are kept in: f64 for f64, else f32.
inline DType statistics_type(const Tensor& x) {
  return x.dtype() == DType::f64 ? DType::f64 : DType::f32;
}

// The axes of x before its last two.
Shape batch_of(const Tensor& x);

// Rows times width of x, the last `axes` axes being the width.
struct Rows {
  int64_t rows;
  int64_t width;
};
Rows rows_of(const Shape& shape, int axes = 1);

}  // namespace binade::ops
