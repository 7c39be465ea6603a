#include "binade/ops/function.h"

#include "binade/ops/common.h"

namespace binade::autograd {

void FunctionContext::save(const std::vector<Tensor>& tensors) {
  saved_.assign(tensors.begin(), tensors.end());
}

std::vector<Tensor> FunctionContext::saved() const {
  std::vector<Tensor> tensors;
  for (const Saved& saved : saved_) tensors.push_back(saved.get());
  return tensors;
}

bool FunctionContext::needs_grad(size_t argument) const {
  return argument < needs_.size() && needs_[argument];
}

void FunctionContext::set_needs(GradSlots slots) {
  needs_.clear();
  for (const GradSlot& slot : slots) needs_.push_back(slot.needs_grad());
}

void record_function(std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                     FunctionContext context, FunctionBackward backward) {
  for (const Tensor& output : outputs)
    ops::require_defined("Function", "result of forward", output);
  record(Op::custom, inputs, outputs,
         [context = std::move(context), backward = std::move(backward),
          state = amp::autocast_state()](std::span<const Tensor> dy, GradSlots dx) mutable {
           context.set_needs(dx);
           const amp::Autocast autocast(state);
           const std::vector<Tensor> gradients = backward(context, dy);
           if (gradients.size() != dx.size()) {
             fail("Function", {.argument = "backward",
                               .expected = "a gradient for each of " + std::to_string(dx.size()) +
                                           " tensor arguments",
                               .found = std::to_string(gradients.size())});
           }
           for (size_t i = 0; i < dx.size(); ++i) {
             if (gradients[i].defined()) dx[i].add(gradients[i]);
           }
         });
  amp::trace_op(Op::custom, inputs, inputs, outputs);
}

}  // namespace binade::autograd
