#include "binade/ops/custom.h"

#include "binade/autograd/grad_mode.h"
#include "binade/autograd/op_observer.h"
#include "binade/base/execution.h"
#include "binade/ops/common.h"

namespace binade {

using namespace ops;

Tensor custom(const CustomOp& op, std::span<const Tensor> inputs) {
  if (!op.forward)
    fail(op.name, {.argument = "forward", .expected = "a function", .found = "none"});
  const autograd::CustomOpScope named(op.name);
  amp::AutocastState inside = amp::autocast_state();
  std::vector<Tensor> compute;
  const std::optional<DType> target = amp::input_type(op.cast, op.name, inputs);
  for (const Tensor& input : inputs) compute.push_back(amp::cast_input(input, target).detach());
  if (op.cast != CastClass::as_is) inside.enabled = false;
  // Observers see the casts before the ops inside, which take their results as inputs.
  if (autograd::OpObserver* const observer = autograd::op_observer(); observer && target)
    observer->forward(Op::custom, inputs, compute, {});
  const bool records = autograd::recording(inputs);
  std::shared_ptr<const execution::State> state;
  Tensor y;
  {
    const NoGrad plain;
    const amp::Autocast autocast(inside);
    if (records) state = execution::capture();
    y = op.forward(compute).detach();
  }
  if (records && !op.backward)
    fail(op.name, {.argument = "backward",
                   .expected = "a function, as an input requires a gradient",
                   .found = "none"});
  const std::vector<Saved> saved(compute.begin(), compute.end());
  autograd::record(Op::custom, inputs, {&y, 1},
                   [op, state, saved, y = Saved(y)](std::span<const Tensor> dy, GradSlots dx) {
                     std::vector<Tensor> given;
                     for (const Saved& input : saved) given.push_back(input.get());
                     const autograd::CustomOpScope named(op.name);
                     const execution::Scope forward(*state, execution::Draws::next);
                     const amp::Autocast casts(amp::autocast_state());  // what it caches ends here
                     op.backward(dy[0], given, y, dx);
                   });
  amp::trace_op(Op::custom, inputs, compute, {&y, 1});
  return y;
}

Tensor custom(const CustomOp& op, std::initializer_list<Tensor> inputs) {
  return custom(op, std::span(inputs.begin(), inputs.size()));
}

}  // namespace binade
