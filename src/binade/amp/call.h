#pragma once

#include <initializer_list>
#include <span>
#include <type_traits>
#include <vector>

#include "binade/amp/autocast.h"
#include "binade/autograd/node.h"

namespace binade::amp {

// Fails, naming the op, unless all defined inputs are on one device.
void require_one_device(Op op, std::span<const Tensor> inputs);

// One call of one op: casts the inputs to the type the policy asks for, then records the backward
// on the inputs as they were given. So a cast is not a node of the graph: an input gets its
// gradient in its own type, and a matmul writes the gradient of an f32 weight in f32.
class Call {
 public:
  Call(Op op, std::initializer_list<Tensor> inputs, bool named = false)
      : Call(op, std::span(inputs.begin(), inputs.size()), named) {}
  Call(Op op, std::span<const Tensor> inputs, bool named = false);

  // Input i in the type the op computes in; undefined if the caller gave none.
  const Tensor& operator[](size_t i) const { return compute_[i]; }
  size_t size() const { return compute_.size(); }

  // Whether a backward will be recorded, so that tensors must be saved for it.
  bool recording() const { return autograd::recording(inputs_); }

  // The result of the call. `backward(const Tensor& dy, GradSlots dx)` gets one slot per input.
  template <class F>
  Tensor result(const Tensor& y, F backward) const {
    static_assert(std::is_invocable_v<F, const Tensor&, autograd::GradSlots>);
    finish({&y, 1},
           [backward = std::move(backward)](std::span<const Tensor> dy, autograd::GradSlots dx) {
             backward(dy[0], dx);
           });
    return y;
  }
  // The result of a call that has no gradient.
  Tensor result(const Tensor& y) const;
  // Records several results; an undefined dy is a zero gradient.
  void results(std::span<const Tensor> y, autograd::Backward backward) const {
    finish(y, std::move(backward));
  }

 private:
  void finish(std::span<const Tensor> outputs, autograd::Backward backward) const;

  Op op_;
  std::vector<Tensor> inputs_;
  std::vector<Tensor> compute_;
};

}  // namespace binade::amp
