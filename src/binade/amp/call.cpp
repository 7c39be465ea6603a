#include "binade/amp/call.h"

#include "binade/amp/trace.h"

namespace binade::amp {

void require_one_device(Op op, std::span<const Tensor> inputs) {
  const Tensor* first = nullptr;
  for (const Tensor& input : inputs) {
    if (!input.defined()) continue;
    if (first == nullptr) first = &input;
    if (input.device() == first->device()) continue;
    fail(name(op), {.argument = "inputs",
                    .expected = "all on one device",
                    .found = describe(*first) + " and " + describe(input),
                    .hint = "move one with to(x, device)"});
  }
}

Call::Call(Op op, std::span<const Tensor> inputs, bool named)
    : op_(op), inputs_(inputs.begin(), inputs.end()) {
  require_one_device(op, inputs);
  const std::optional<DType> target = input_type(op, inputs, named);
  compute_.reserve(inputs_.size());
  for (const Tensor& input : inputs_) compute_.push_back(cast_input(input, target));
}

Tensor Call::result(const Tensor& y) const {
  trace_op(op_, inputs_, compute_, {&y, 1});
  return y;
}

void Call::finish(std::span<const Tensor> outputs, autograd::Backward backward) const {
  autograd::record(op_, inputs_, outputs, std::move(backward));
  trace_op(op_, inputs_, compute_, outputs);
}

}  // namespace binade::amp
