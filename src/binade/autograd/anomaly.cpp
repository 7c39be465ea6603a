#include "binade/autograd/anomaly.h"

#include "binade/autograd/node.h"
#include "binade/backend/backend.h"
#include "binade/base/execution.h"

namespace binade::autograd {
namespace {

// Of the thread that calls backward(), not of the forwards it repeats.
constinit execution::Slot<bool> thread_detects(execution::Belongs::to_thread);

bool holds_nan(const Tensor& x) {
  const Tensor is_nan = Tensor::empty(x.shape(), DType::boolean, x.device()),
               count = Tensor::empty(Shape::filled(x.rank(), 1), DType::i64, x.device());
  backend::of(x).elementwise.unary(backend::Unary::is_nan, {}, x, is_nan);
  backend::of(x).reduce.reduce(backend::Reduction::sum, is_nan, {count});
  return count.item() != 0;
}

// The gradient that a slot holds after a backward; undefined if the backward left it out.
Tensor gradient_of(const AutogradMeta& meta) {
  if (meta.node == nullptr) return meta.holds_gradient ? meta.grad : Tensor();
  const auto at = static_cast<size_t>(meta.output);
  return at < meta.node->gradients.size() ? meta.node->gradients[at] : Tensor();
}

}  // namespace

DetectAnomaly::DetectAnomaly() : scope_(*thread_detects, true) {}

bool detects_anomalies() { return *thread_detects; }

void check_for_anomaly(const Node& node) {
  if (!*thread_detects) return;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!node.inputs[i].needs_grad()) continue;
    const Tensor gradient = gradient_of(*node.inputs[i].meta());
    if (!gradient.defined() || gradient.numel() == 0 || !holds_nan(gradient)) continue;
    fail(name(node.op),
         {.argument = "gradient of input " + std::to_string(i),
          .expected = "no NaN",
          .found = "NaN in " + describe(gradient),
          .hint = node.module.empty() ? "" : "its forward ran in the module " + node.module});
  }
}

}  // namespace binade::autograd
