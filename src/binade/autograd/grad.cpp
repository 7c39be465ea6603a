#include "binade/autograd/grad.h"

#include <map>
#include <utility>

#include "binade/autograd/engine.h"

namespace binade::autograd {
namespace {

// For its lifetime, the leaves among some tensors have no gradient and no buffer for one.
class GradientsSetAside {
 public:
  GradientsSetAside() = default;
  ~GradientsSetAside() {
    for (const auto& [meta, kept] : kept_) {
      meta->grad = kept.grad;
      meta->holds_gradient = kept.holds_gradient;
    }
  }
  GradientsSetAside(const GradientsSetAside&) = delete;
  GradientsSetAside& operator=(const GradientsSetAside&) = delete;

  void add(const std::vector<Tensor>& tensors) {
    for (const Tensor& tensor : tensors) {
      const std::shared_ptr<AutogradMeta>& meta = tensor.autograd_meta();
      if (meta->node != nullptr || kept_.contains(meta)) continue;
      kept_[meta] = {std::exchange(meta->grad, {}), std::exchange(meta->holds_gradient, false)};
    }
  }

 private:
  struct Kept {
    Tensor grad;
    bool holds_gradient = false;
  };
  std::map<std::shared_ptr<AutogradMeta>, Kept> kept_;
};

void check(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
           const GradOptions& options) {
  if (options.create_graph) {
    fail("grad", {.argument = "create_graph",
                  .expected = "false",
                  .found = "true",
                  .hint = "double backward is not supported: gradients are computed by kernels "
                          "that record nothing"});
  }
  for (const auto& [argument, tensors] :
       {std::pair("outputs", &outputs), std::pair("inputs", &inputs)}) {
    for (const Tensor& tensor : *tensors) {
      if (tensor.requires_grad()) continue;
      fail("grad", {.argument = argument,
                    .expected = "tensors that require a gradient",
                    .found = describe(tensor)});
    }
  }
  if (!options.seeds.empty() && options.seeds.size() != outputs.size()) {
    fail("grad", {.argument = "seeds",
                  .expected = "one for each of " + std::to_string(outputs.size()) + " outputs",
                  .found = std::to_string(options.seeds.size())});
  }
}

}  // namespace

std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const GradOptions& options) {
  check(outputs, inputs, options);
  std::vector<Tensor> seeds;
  for (size_t i = 0; i < outputs.size(); ++i)
    seeds.push_back(
        first_gradient(outputs[i], options.seeds.empty() ? Tensor() : options.seeds[i]));
  GradientsSetAside set_aside;
  set_aside.add(inputs);
  set_aside.add(outputs);
  std::vector<std::shared_ptr<AutogradMeta>> targets;
  for (const Tensor& input : inputs) targets.push_back(input.autograd_meta());
  const std::vector<Tensor> results = gradients_of(outputs, seeds, targets, options.retain);
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].defined() || options.allow_unused) continue;
    fail("grad", {.argument = "inputs",
                  .expected = "tensors that the outputs depend on",
                  .found = "input " + std::to_string(i) + ", " + describe(inputs[i]),
                  .hint = "allow_unused = true gives it an undefined gradient"});
  }
  return results;
}

}  // namespace binade::autograd
