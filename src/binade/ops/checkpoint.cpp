#include "binade/ops/checkpoint.h"

#include "binade/amp/fp8.h"
#include "binade/autograd/engine.h"
#include "binade/autograd/module_path.h"
#include "binade/autograd/recompute.h"
#include "binade/autograd/variable.h"
#include "binade/base/random.h"
#include "binade/ops/common.h"

namespace binade {
namespace {

using namespace ops;
using ManyFunction = std::function<std::vector<Tensor>(std::span<const Tensor>)>;

// Everything outside of its arguments that a forward depends on.
struct ForwardState {
  amp::AutocastState autocast = amp::autocast_state();
  amp::Fp8State fp8 = amp::fp8_state();
  std::string path = autograd::module_path();
  random::Context random = random::context();
};

std::vector<Tensor> run_again(const ManyFunction& fn, const ForwardState& state, std::span<const Tensor> inputs) {
  const amp::Autocast autocast(state.autocast);
  const amp::Fp8Autocast fp8(state.fp8);
  const autograd::ModulePathGuard path(state.path);
  const autograd::RecomputeScope recompute;
  const autograd::GradMode recording(true);
  const random::Context now = std::exchange(random::context(), state.random);
  std::vector<Tensor> outputs = fn(inputs);
  random::context() = now;
  return outputs;
}

}  // namespace

std::vector<Tensor> checkpoint_many(ManyFunction fn, std::span<const Tensor> inputs) {
  if (!autograd::grad_enabled()) return fn(inputs);
  const ForwardState state;
  std::vector<Tensor> outputs;
  {
    const NoGrad forward_only;
    for (const Tensor& output : fn(inputs)) outputs.push_back(output.detach());
  }
  // Parameters inside fn want gradients even where no input does: one extra leaf keeps the node.
  std::vector<Tensor> given(inputs.begin(), inputs.end());
  Tensor anchor = Tensor::empty({0}, DType::f32);
  anchor.set_requires_grad();
  given.push_back(anchor);
  std::vector<Saved> saved;
  std::vector<bool> wants;
  for (const Tensor& input : inputs) {
    saved.emplace_back(input);
    wants.push_back(input.requires_grad());
  }
  autograd::Node* node = autograd::record(Op::checkpoint, given, outputs, [fn = std::move(fn), state, saved, wants](std::span<const Tensor> dy, GradSlots dx) {
    std::vector<Tensor> leaves;
    for (size_t i = 0; i < saved.size(); ++i) {
      leaves.push_back(saved[i].get().detach());
      if (!wants[i]) continue;
      leaves[i].set_requires_grad();
      leaves[i].set_grad_dtype(leaves[i].dtype());
    }
    const std::vector<Tensor> again = run_again(fn, state, leaves);
    autograd::run_backward(again, dy, false);
    for (size_t i = 0; i < saved.size(); ++i) {
      if (wants[i] && leaves[i].grad().defined()) dx[i].add(leaves[i].grad());
    }
  });
  if (node != nullptr) node->opaque = true;
  return outputs;
}

Tensor checkpoint(const std::function<Tensor(std::span<const Tensor>)>& fn, std::span<const Tensor> inputs) {
  const auto many = [fn](std::span<const Tensor> given) { return std::vector<Tensor>{fn(given)}; };
  return checkpoint_many(many, inputs)[0];
}

Tensor checkpoint(const std::function<Tensor(std::span<const Tensor>)>& fn, std::initializer_list<Tensor> inputs) {
  return checkpoint(fn, std::span(inputs.begin(), inputs.size()));
}

}  // namespace binade
