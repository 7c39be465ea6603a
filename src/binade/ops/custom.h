#pragma once

#include <functional>
#include <span>
#include <string>

#include "binade/autograd/node.h"
#include "binade/tensor/tensor.h"

namespace binade {

// A user-defined op that takes part in autograd and autocast.
struct CustomOp {
  std::string name;
  // How autocast treats its inputs. Forward and backward run in the execution state of the call
  // (base/execution.h) and draw what is next, with autocast disabled unless the class is as_is.
  CastClass cast = CastClass::as_is;
  std::function<Tensor(std::span<const Tensor> inputs)> forward;
  // Adds a gradient to each slot that needs one: dx[i].add(...). Ops called here are not recorded.
  std::function<void(const Tensor& dy, std::span<const Tensor> inputs, const Tensor& y,
                     autograd::GradSlots dx)>
      backward;
};

Tensor custom(const CustomOp& op, std::span<const Tensor> inputs);
Tensor custom(const CustomOp& op, std::initializer_list<Tensor> inputs);

}  // namespace binade
