#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "binade/amp/autocast.h"
#include "binade/autograd/grad_mode.h"
#include "binade/autograd/node.h"

namespace binade::autograd {

// What the forward of a Function keeps for its backward.
class FunctionContext {
 public:
  // Tensors of the forward. saved() fails if one was changed in place since.
  void save(const std::vector<Tensor>& tensors);
  std::vector<Tensor> saved() const;

  // Numbers by name.
  std::map<std::string, double> numbers;

  // Whether the gradient of a tensor argument is used; others may be left undefined.
  bool needs_grad(size_t argument) const;
  // For the engine.
  void set_needs(GradSlots slots);

 private:
  std::vector<Saved> saved_;
  std::vector<bool> needs_;
};

using FunctionBackward =
    std::function<std::vector<Tensor>(FunctionContext& context, std::span<const Tensor> dy)>;
// Records the call of a Function.
void record_function(std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                     FunctionContext context, FunctionBackward backward);

// A user-defined op with a forward and a backward of its own, as LibTorch's
// torch::autograd::Function:
//
//   struct Cube : Function<Cube> {
//     static Tensor forward(FunctionContext& context, const Tensor& x) {
//       context.save({x});
//       return x * x * x;
//     }
//     static std::vector<Tensor> backward(FunctionContext& context, std::span<const Tensor> dy) {
//       return {dy[0] * 3 * square(context.saved()[0])};
//     }
//   };
//   Tensor y = Cube::apply(x);
//
// `forward` takes tensors and any other arguments, records nothing and returns a Tensor or a
// std::vector<Tensor>. `backward` gets the gradient of each result (undefined: zero) and returns
// one for each tensor argument, in their order. Both run under the autocast state of the call;
// CustomOp has an autocast class of its own.
template <class F>
struct Function {
  template <class... Args>
  static auto apply(const Args&... arguments) {
    FunctionContext context;
    auto result = [&] {
      const NoGrad plain;
      return F::forward(context, arguments...);
    }();
    std::vector<Tensor> inputs, outputs;
    const auto collect = [&inputs](const auto& argument) {
      if constexpr (std::is_same_v<std::decay_t<decltype(argument)>, Tensor>)
        inputs.push_back(argument);
    };
    (collect(arguments), ...);
    constexpr bool is_single = std::is_same_v<decltype(result), Tensor>;
    if constexpr (is_single) {
      outputs.push_back(result.detach());
    } else {
      for (const Tensor& output : result) outputs.push_back(output.detach());
    }
    record_function(inputs, outputs, std::move(context), F::backward);
    if constexpr (is_single) {
      return outputs[0];
    } else {
      return outputs;
    }
  }
};

}  // namespace binade::autograd
