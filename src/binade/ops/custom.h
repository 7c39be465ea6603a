#pragma once

#include <functional>
#include <span>
#include <string>

#include "binade/autograd/node.h"
#include "binade/tensor/tensor.h"

namespace binade {

// An op of the user's own that takes part in autograd and autocast.
struct CustomOp {
  std::string name;
  // What autocast does with its inputs. Inside forward and backward autocast is off, unless the
  // class is as_is: then both run under the state of the call.
  CastClass cast = CastClass::as_is;
  std::function<Tensor(std::span<const Tensor> inputs)> forward;
  // Gives each wanted slot its gradient: dx[i].add(...). Nothing records here.
  std::function<void(const Tensor& dy, std::span<const Tensor> inputs, const Tensor& y,
                     autograd::GradSlots dx)>
      backward;
};

Tensor custom(const CustomOp& op, std::span<const Tensor> inputs);
Tensor custom(const CustomOp& op, std::initializer_list<Tensor> inputs);

}  // namespace binade
