#include "binade/train/leaf_sum.h"

#include <utility>

#include "binade/autograd/autograd_meta.h"
#include "binade/backend/backend.h"

namespace binade::train {

struct LeafSum::State {
  std::vector<Tensor> sums;  // of earlier micro-batches; undefined before the first
  DType wire = DType::f32;
  bool active = false;

  // A gradient of the running micro-batch is finished.
  void take(autograd::AutogradMeta& leaf, size_t index) {
    const auto& kernels = backend::of(leaf.device).elementwise;
    Tensor gradient = leaf.grad;
    if (wire != DType::f32) {
      const memory::CategoryGuard category(memory::Category::workspace);
      const Tensor rounded = Tensor::empty(gradient.shape(), wire, gradient.device());
      kernels.copy(gradient, rounded);
      kernels.copy(rounded, gradient);
    }
    Tensor& sum = sums[index];
    if (!sum.defined()) return;  // the first one: it becomes the sum where it is
    kernels.axpby(1, gradient, 1, sum);
    leaf.grad = {};
    leaf.holds_gradient = false;
  }
};

LeafSum::LeafSum(std::vector<Tensor> parameters, DType wire)
    : parameters_(std::move(parameters)), state_(std::make_shared<State>()) {
  state_->sums.resize(parameters_.size());
  state_->wire = wire;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const std::weak_ptr<autograd::AutogradMeta> leaf = parameters_[i].autograd_meta();
    autograd::on_gradient(parameters_[i], [state = state_, leaf, i](const Tensor&) {
      if (state->active) state->take(*leaf.lock(), i);
      return Tensor();
    });
  }
}

LeafSum::~LeafSum() { state_->active = false; }

void LeafSum::run(int64_t count, FunctionRef<void(int64_t)> backward) {
  // One gradient is its own sum.
  state_->active = count > 1 || state_->wire != DType::f32;
  for (int64_t micro = 0; micro < count; ++micro) {
    backward(micro);
    if (micro > 0 || count == 1) continue;
    // The first gradients stay where they are, and later ones get buffers of their own.
    for (size_t i = 0; i < parameters_.size(); ++i) {
      autograd::AutogradMeta& leaf = *parameters_[i].autograd_meta();
      if (!leaf.holds_gradient) continue;
      state_->sums[i] = std::exchange(leaf.grad, {});
      leaf.holds_gradient = false;
    }
  }
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!state_->sums[i].defined()) continue;
    autograd::AutogradMeta& leaf = *parameters_[i].autograd_meta();
    leaf.grad = std::exchange(state_->sums[i], {});
    leaf.holds_gradient = true;
  }
  state_->active = false;
}

}  // namespace binade::train
