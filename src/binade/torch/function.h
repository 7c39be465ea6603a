#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "binade/ops/create/create.h"
#include "binade/ops/function.h"

// torch::autograd::Function: an op with a backward of its own, whose context is a pointer.
namespace binade::torch::autograd {

using variable_list = std::vector<Tensor>;

// A number kept for the backward: ctx->saved_data["k"] = 2, and .toInt() there.
class SavedValue {
 public:
  SavedValue(double value = 0) : value_(value) {}  // NOLINT: as LibTorch's
  double toDouble() const { return value_; }
  int64_t toInt() const { return static_cast<int64_t>(value_); }
  bool toBool() const { return value_ != 0; }

 private:
  double value_;
};
using SavedData = std::map<std::string, SavedValue>;

class AutogradContext {
 public:
  explicit AutogradContext(binade::autograd::FunctionContext& context, SavedData data = {})
      : saved_data(std::move(data)), context_(context) {}

  void save_for_backward(const variable_list& tensors) { context_.save(tensors); }
  variable_list get_saved_variables() const { return context_.saved(); }
  // Whether the gradient of a tensor argument is used.
  bool needs_input_grad(size_t argument) const { return context_.needs_grad(argument); }

  SavedData saved_data;

 private:
  binade::autograd::FunctionContext& context_;
};

//   struct Scale : torch::autograd::Function<Scale> {
//     static torch::Tensor forward(AutogradContext* ctx, torch::Tensor x, double factor);
//     static variable_list backward(AutogradContext* ctx, variable_list grad_output);
//   };
//   auto y = Scale::apply(x, 2.0);
//
// `backward` returns a gradient for each argument of `forward`, undefined for those that are no
// tensors. Gradients of results that nothing used are zeros.
template <class F>
struct Function {
  template <class... Args>
  static auto apply(const Args&... arguments) {
    binade::autograd::FunctionContext context;
    AutogradContext ctx(context);
    auto result = [&] {
      const NoGrad plain;
      return F::forward(&ctx, arguments...);
    }();
    variable_list inputs, outputs;
    std::vector<bool> is_tensor;
    const auto collect = [&](const auto& argument) {
      constexpr bool tensor = std::derived_from<std::decay_t<decltype(argument)>, Tensor>;
      if constexpr (tensor) inputs.push_back(argument);
      is_tensor.push_back(tensor);
    };
    (collect(arguments), ...);
    constexpr bool is_single = std::is_same_v<decltype(result), Tensor>;
    if constexpr (is_single) {
      outputs.push_back(result.detach());
    } else {
      for (const Tensor& output : result) outputs.push_back(output.detach());
    }
    std::vector<std::pair<Shape, TensorOptions>> kinds;
    for (const Tensor& output : outputs) kinds.emplace_back(output.shape(), output.options());
    binade::autograd::record_function(
        inputs, outputs, std::move(context),
        [data = ctx.saved_data, is_tensor, kinds](binade::autograd::FunctionContext& kept,
                                                  std::span<const Tensor> dy) {
          variable_list given;
          for (size_t i = 0; i < dy.size(); ++i)
            given.push_back(dy[i].defined() ? dy[i] : zeros(kinds[i].first, kinds[i].second));
          AutogradContext again(kept, data);
          const variable_list all = F::backward(&again, given);
          if (all.size() < is_tensor.size()) {
            fail("Function", {.argument = "backward",
                              .expected = std::to_string(is_tensor.size()) + " gradients",
                              .found = std::to_string(all.size())});
          }
          variable_list gradients;
          for (size_t i = 0; i < is_tensor.size(); ++i) {
            if (is_tensor[i]) gradients.push_back(all[i]);
          }
          return gradients;
        });
    if constexpr (is_single) {
      return outputs[0];
    } else {
      return outputs;
    }
  }
};

}  // namespace binade::torch::autograd
