#include "binade/ops/recompute.h"

#include <algorithm>
#include <utility>

#include "binade/autograd/engine.h"
#include "binade/autograd/grad_mode.h"
#include "binade/autograd/recompute.h"
#include "binade/backend/capabilities.h"
#include "binade/base/execution.h"
#include "binade/ops/common.h"

namespace binade {
namespace {

using namespace ops;
using ManyFunction = std::function<std::vector<Tensor>(std::span<const Tensor>)>;

// Of the work: a repeated forward saves for its backward what the plain one would have.
constinit execution::Slot<bool> keeps_results(execution::Belongs::to_work);

// Runs `fn` in the state of its forward, which recorded gradients.
std::vector<Tensor> recomputed(const ManyFunction& fn, const execution::State& forward,
                               std::span<const Tensor> inputs) {
  const execution::Scope state(forward);
  const amp::Autocast casts(amp::autocast_state());  // what it caches ends here
  const autograd::RecomputeScope recompute;
  return fn(inputs);
}

// The inputs as leaves of a separate graph. Their gradients accumulate directly in the slots'
// buffers, so that sums have the same order as without recompute. An input given twice is one leaf.
std::vector<Tensor> leaves_for(std::span<const Saved> saved, GradSlots slots) {
  std::vector<Tensor> leaves;
  for (size_t i = 0; i < saved.size(); ++i) {
    leaves.push_back(saved[i].get().detach());
    if (!slots[i].needs_grad()) continue;
    const auto same = [&](const GradSlot& slot) { return slot.meta() == slots[i].meta(); };
    const auto first =
        static_cast<size_t>(std::find_if(slots.begin(), slots.end(), same) - slots.begin());
    if (first < i) {
      leaves[i].set_autograd_meta(leaves[first].autograd_meta());
      continue;
    }
    leaves[i].set_requires_grad();
    autograd::AutogradMeta& meta = *leaves[i].autograd_meta();
    const auto [buffer, accumulate] = slots[i].target();
    meta.grad = buffer;
    meta.grad_dtype = buffer.dtype();
    meta.holds_gradient = accumulate;
  }
  return leaves;
}

// Zeroes buffers that got no gradient: a slot counts as filled once target() was called.
void clear_unwritten(std::span<const Tensor> leaves) {
  for (const Tensor& leaf : leaves) {
    if (leaf.requires_grad() && !leaf.grad().defined())
      backend::of(leaf).elementwise.fill(leaf.autograd_meta()->grad, 0);
  }
}

}  // namespace

bool ops::recomputes_results(Device device) {
  return backend::capabilities(device).recomputes_results && !*keeps_results;
}

KeepResults::KeepResults(bool keep) : restore_(*keeps_results, keep) {}

std::vector<Tensor> checkpoint_many(ManyFunction fn, std::span<const Tensor> inputs,
                                    std::span<const Tensor> parameters) {
  if (!autograd::grad_enabled()) return fn(inputs);
  const auto state = execution::capture();
  std::vector<Tensor> outputs;
  {
    const NoGrad forward_only;
    for (const Tensor& output : fn(inputs)) {
      require_defined("checkpoint", "result of the function", output);
      outputs.push_back(output.detach());
    }
  }
  // Parameters inside fn may need gradients when no input does: an extra leaf keeps the node.
  std::vector<Tensor> given(inputs.begin(), inputs.end());
  Tensor anchor = Tensor::empty({0}, DType::f32);
  anchor.set_requires_grad();
  given.push_back(anchor);
  given.insert(given.end(), parameters.begin(), parameters.end());
  const std::vector<Saved> saved(inputs.begin(), inputs.end());
  autograd::Node* node = autograd::record(
      Op::checkpoint, given, outputs,
      [fn = std::move(fn), state, saved](std::span<const Tensor> dy, GradSlots dx) {
        const std::vector<Tensor> leaves = leaves_for(saved, dx.first(saved.size()));
        try {
          const std::vector<Tensor> again = recomputed(fn, *state, leaves);
          autograd::run_backward(again, dy);
        } catch (...) {
          clear_unwritten(leaves);
          throw;
        }
        clear_unwritten(leaves);
      });
  if (node != nullptr) {
    node->opaque = true;
    node->lists_leaves = !parameters.empty();
  }
  return outputs;
}

Tensor checkpoint(const std::function<Tensor(std::span<const Tensor>)>& fn,
                  std::span<const Tensor> inputs) {
  const auto many = [fn](std::span<const Tensor> given) { return std::vector<Tensor>{fn(given)}; };
  return checkpoint_many(many, inputs)[0];
}

Tensor checkpoint(const std::function<Tensor(std::span<const Tensor>)>& fn,
                  std::initializer_list<Tensor> inputs) {
  return checkpoint(fn, std::span(inputs.begin(), inputs.size()));
}

}  // namespace binade
