#include "binade/autograd/engine.h"

#include <algorithm>
#include <unordered_set>

#include "binade/autograd/grad_mode.h"
#include "binade/autograd/op_observer.h"
#include "binade/backend/backend.h"

namespace binade::autograd {
namespace {

thread_local const Node* running_node = nullptr;

// What a hook made of a gradient; undefined where it left it alone.
Tensor replacement(const Hook& hook, const Tensor& gradient) {
  Tensor replaced = hook(gradient);
  if (!replaced.defined() || replaced.same_as(gradient)) return {};
  if (replaced.shape() != gradient.shape() || replaced.device() != gradient.device() ||
      !is_compute(replaced.dtype())) {
    fail(
        "on_gradient",
        {.argument = "hook's result", .expected = describe(gradient), .found = describe(replaced)});
  }
  if (replaced.dtype() == gradient.dtype()) return replaced;
  Tensor converted = Tensor::empty(gradient.shape(), gradient.dtype(), gradient.device());
  backend::of(gradient).elementwise.copy(replaced, converted);
  return converted;
}

// One walk. A recompute's walk runs inside another one: leaves with hooks that it reaches are
// reported to the outer walk, which alone knows when nothing more is coming.
class Walk {
 public:
  explicit Walk(std::vector<Node*> roots)
      : outer_(std::exchange(current_, this)), nodes_(std::move(roots)) {}
  ~Walk() {
    current_ = outer_;
    if (!completed_) forget();
  }
  Walk(const Walk&) = delete;
  Walk& operator=(const Walk&) = delete;

  // Finds everything the roots were made from. Apart from the constructor: should it fail, the
  // destructor still cleans up.
  void collect() {
    std::unordered_set<Node*> seen(nodes_.begin(), nodes_.end());
    for (size_t i = 0; i < nodes_.size(); ++i) {
      Node& node = *nodes_[i];
      if (!node.backward) {
        fail("backward", {.argument = std::string(name(node.op)),
                          .expected = "a graph not walked before",
                          .found = "one whose saved tensors were released",
                          .hint = "call backward once, or pass retain = true to the first call"});
      }
      node.gradients.resize(node.outputs.size());
      if (node.opaque) ++opaque_left_;
      for (const GradSlot& input : node.inputs) {
        const std::shared_ptr<Meta>& meta = input.meta();
        if (meta == nullptr) continue;
        if (meta->node == nullptr) {
          ++meta->pending;
        } else if (seen.insert(meta->node.get()).second) {
          nodes_.push_back(meta->node.get());
        }
      }
    }
    // Creation order is a topological order; newest first makes the walk deterministic.
    std::sort(nodes_.begin(), nodes_.end(),
              [](const Node* a, const Node* b) { return a->sequence > b->sequence; });
  }

  // The gradient to start from at one root.
  void seed(const std::shared_ptr<Meta>& root, const Tensor& gradient) {
    GradSlot(root).add(gradient);
    if (root->node == nullptr && root->pending == 0) finished(root.get());
  }

  void run(bool retain) {
    for (Node* node : nodes_) {
      run_hooks_of_results(*node);
      call(*node);
      if (!retain) node->backward = nullptr;
      if (node->opaque) --opaque_left_;
      for (const GradSlot& input : node->inputs) {
        Meta* meta = input.meta().get();
        if (meta != nullptr && meta->node == nullptr && --meta->pending == 0) finished(meta);
      }
      if (opaque_left_ == 0) flush();
    }
    flush();
    completed_ = true;
  }

 private:
  static void run_hooks_of_results(Node& node) {
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const auto meta = node.outputs[i].lock();
      if (meta == nullptr || !node.gradients[i].defined()) continue;
      for (const Hook& hook : meta->hooks) {
        if (Tensor replaced = replacement(hook, node.gradients[i]); replaced.defined())
          node.gradients[i] = std::move(replaced);
      }
    }
  }

  static void call(Node& node) {
    const std::vector<Tensor> dy = std::exchange(node.gradients, {});
    const bool reached =
        std::any_of(dy.begin(), dy.end(), [](const Tensor& g) { return g.defined(); });
    if (!reached) return;
    const Node* previous = std::exchange(running_node, &node);
    try {
      if (OpObserver* const observer = op_observer()) observer->before_backward(node);
      node.backward(dy, node.inputs);
      if (OpObserver* const observer = op_observer()) observer->after_backward(node, dy);
    } catch (...) {
      running_node = previous;
      throw;
    }
    running_node = previous;
  }

  void finished(Meta* leaf) {
    const bool known = std::find(finished_.begin(), finished_.end(), leaf) != finished_.end();
    if (!leaf->hooks.empty() && !known) finished_.push_back(leaf);
  }

  // After an error: leaves nothing behind that the next walk would stumble over.
  void forget() {
    for (Node* node : nodes_) {
      node->gradients.clear();
      for (const GradSlot& input : node->inputs) {
        if (input.meta() != nullptr) input.meta()->pending = 0;
      }
    }
  }

  void flush() {
    for (Meta* leaf : std::exchange(finished_, {})) {
      if (outer_ != nullptr) {
        outer_->finished(leaf);
        continue;
      }
      for (const Hook& hook : leaf->hooks) {
        if (!leaf->holds_gradient) break;
        if (const Tensor replaced = replacement(hook, leaf->grad); replaced.defined()) {
          backend::of(leaf->device).elementwise.copy(replaced, leaf->grad);
        }
      }
    }
  }

  static thread_local Walk* current_;
  Walk* outer_;
  std::vector<Node*> nodes_;
  std::vector<Meta*> finished_;
  int opaque_left_ = 0;
  bool completed_ = false;
};

thread_local Walk* Walk::current_ = nullptr;

Tensor first_gradient(const Tensor& root, const Tensor& seed) {
  if (seed.defined()) {
    if (seed.shape() != root.shape()) {
      fail("backward",
           {.argument = "seed", .expected = to_string(root.shape()), .found = describe(seed)});
    }
    return seed;
  }
  if (root.numel() != 1) {
    fail("backward", {.argument = "tensor",
                      .expected = "one element",
                      .found = describe(root),
                      .hint = "reduce it to a scalar or pass the gradient to start from"});
  }
  Tensor one = Tensor::empty(root.shape(), root.dtype(), root.device());
  backend::of(root).elementwise.fill(one, 1);
  return one;
}

}  // namespace

std::string_view running_op() {
  return running_node == nullptr ? "backward" : name(running_node->op);
}

void run_backward(std::span<const Tensor> roots, std::span<const Tensor> seeds, bool retain) {
  const GradMode no_recording(false);
  std::vector<std::shared_ptr<Node>> keep;
  std::vector<Node*> nodes;
  for (size_t i = 0; i < roots.size(); ++i) {
    if (!seeds[i].defined() || !roots[i].requires_grad()) continue;
    const std::shared_ptr<Node>& node = roots[i].autograd_meta()->node;
    if (node == nullptr || std::find(nodes.begin(), nodes.end(), node.get()) != nodes.end())
      continue;
    keep.push_back(node);
    nodes.push_back(node.get());
  }
  Walk walk(std::move(nodes));
  walk.collect();
  for (size_t i = 0; i < roots.size(); ++i) {
    if (seeds[i].defined() && roots[i].requires_grad())
      walk.seed(roots[i].autograd_meta(), seeds[i]);
  }
  walk.run(retain);
}

void run_backward(const Tensor& root, const Tensor& seed, bool retain) {
  if (!root.requires_grad()) {
    fail("backward",
         {.argument = "tensor",
          .expected = "one that requires a gradient",
          .found = describe(root) + " without a graph",
          .hint = "set_requires_grad() on a leaf before the forward, outside of NoGrad"});
  }
  const Tensor start = first_gradient(root, seed);
  run_backward({&root, 1}, {&start, 1}, retain);
}

}  // namespace binade::autograd
