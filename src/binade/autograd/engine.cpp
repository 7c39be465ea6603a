#include "binade/autograd/engine.h"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "binade/autograd/anomaly.h"
#include "binade/autograd/cast_observer.h"
#include "binade/autograd/grad_mode.h"
#include "binade/autograd/op_observer.h"
#include "binade/backend/backend.h"
#include "binade/base/execution.h"

namespace binade::autograd {
namespace {

class Walk;

// The backward pass that runs on a thread.
struct Pass {
  Walk* walk = nullptr;  // the innermost
  const Node* node = nullptr;
  bool releases_graph = false;
};
// Of the thread: it refers to walks on its stack.
constinit execution::Slot<Pass> thread_pass(execution::Belongs::to_thread);

// The gradient a hook returns, in the type of `gradient`; undefined if the hook changes nothing.
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
  observe_cast(replaced, converted);
  return converted;
}

// One backward pass over a graph. The walk of a recompute runs inside another one and reports
// finished leaves with hooks to it, because only the outermost walk knows when a gradient is
// complete.
class Walk {
 public:
  explicit Walk(std::vector<Node*> roots)
      : scope_(thread_pass->walk, this), nodes_(std::move(roots)) {}
  ~Walk() {
    if (!completed_) reset_nodes();
    restore_gradients();
  }
  Walk(const Walk&) = delete;
  Walk& operator=(const Walk&) = delete;

  // Finds all nodes below the roots. Not part of the constructor, so that the destructor cleans up
  // if it fails.
  void collect() {
    std::unordered_set<Node*> seen(nodes_.begin(), nodes_.end());
    for (size_t i = 0; i < nodes_.size(); ++i) {
      Node& node = *nodes_[i];
      if (!node.backward) {
        fail("backward",
             {.argument = std::string(name(node.op)),
              .expected = "a graph not walked before",
              .found = "one whose saved tensors were released",
              .hint = "call backward once, or pass RetainGraph::yes to the first call"});
      }
      node.gradients.resize(node.outputs.size());
      if (node.opaque && !node.lists_leaves) ++opaque_left_;
      for (const GradSlot& input : node.inputs) {
        const std::shared_ptr<AutogradMeta>& meta = input.meta();
        if (meta == nullptr) continue;
        if (meta->node == nullptr) {
          ++meta->pending;
          set_aside(meta);
        } else if (seen.insert(meta->node.get()).second) {
          nodes_.push_back(meta->node.get());
        }
      }
    }
    // Reverse creation order is topological and makes the walk deterministic.
    std::sort(nodes_.begin(), nodes_.end(),
              [](const Node* a, const Node* b) { return a->sequence > b->sequence; });
  }

  // Sets the gradient of one root.
  void seed(const std::shared_ptr<AutogradMeta>& root, const Tensor& gradient) {
    if (root->node == nullptr) set_aside(root);
    GradSlot(root).add(gradient);
    if (root->node == nullptr && root->pending == 0) mark_finished(root.get());
  }

  void run(RetainGraph retain) {
    const Restore<bool> releases(thread_pass->releases_graph, retain == RetainGraph::no);
    for (Node* node : nodes_) {
      run_result_hooks(*node);
      keep_retained(*node);
      call(*node);
      if (retain == RetainGraph::no) node->backward = nullptr;
      if (node->opaque && !node->lists_leaves) --opaque_left_;
      for (const GradSlot& input : node->inputs) {
        AutogradMeta* meta = input.meta().get();
        if (meta != nullptr && meta->node == nullptr && --meta->pending == 0) mark_finished(meta);
      }
      if (opaque_left_ == 0) run_leaf_hooks();
    }
    run_leaf_hooks();
    completed_ = true;
  }

  // Runs only the ops between the roots and the targets, whose gradients it returns: undefined for
  // targets that the roots do not depend on. Other leaves get no gradient.
  std::vector<Tensor> run_towards(std::span<const std::shared_ptr<AutogradMeta>> targets,
                                  RetainGraph retain) {
    // The graph below the targets stays.
    const Restore<bool> releases(thread_pass->releases_graph, false);
    const auto is_target = [&](const AutogradMeta* meta) {
      return std::any_of(targets.begin(), targets.end(),
                         [meta](const auto& target) { return target.get() == meta; });
    };
    std::unordered_set<const Node*> needed;
    const auto leads_to_target = [&](const AutogradMeta* meta) {
      return meta != nullptr && (is_target(meta) || needed.contains(meta->node.get()));
    };
    for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
      const auto& inputs = (*node)->inputs;
      if (std::any_of(inputs.begin(), inputs.end(),
                      [&](const GradSlot& slot) { return leads_to_target(slot.meta().get()); }))
        needed.insert(*node);
    }
    std::vector<Tensor> results(targets.size());
    for (Node* node : nodes_) {
      run_result_hooks(*node);
      for (size_t i = 0; i < targets.size(); ++i) {
        if (targets[i]->node.get() == node)
          results[i] = node->gradients[static_cast<size_t>(targets[i]->output)];
      }
      if (!needed.contains(node)) continue;
      if (node->opaque) refuse_opaque(*node);
      std::vector<GradSlot> slots = node->inputs;
      for (GradSlot& slot : slots) {
        if (!leads_to_target(slot.meta().get())) slot = GradSlot(nullptr);
      }
      call(*node, slots);
      if (retain == RetainGraph::no) node->backward = nullptr;
    }
    reset_nodes();
    completed_ = true;
    std::unordered_set<const AutogradMeta*> hooked;
    for (size_t i = 0; i < targets.size(); ++i) {
      if (targets[i]->node != nullptr || !targets[i]->holds_gradient) continue;
      if (hooked.insert(targets[i].get()).second) run_hooks(*targets[i]);
      results[i] = targets[i]->grad;
    }
    return results;
  }

 private:
  [[noreturn]] static void refuse_opaque(const Node& node) {
    fail("grad", {.argument = "outputs",
                  .expected = "a graph without recompute",
                  .found = std::string(name(node.op)),
                  .hint = "its backward fills the gradients of all parameters: call backward()"});
  }

  static void run_result_hooks(Node& node) {
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const auto meta = node.outputs[i].lock();
      if (meta == nullptr || !node.gradients[i].defined()) continue;
      for (const Hook& hook : meta->hooks) {
        if (Tensor replaced = replacement(hook, node.gradients[i]); replaced.defined())
          node.gradients[i] = std::move(replaced);
      }
    }
  }

  // Adds the gradients of results that retain them.
  static void keep_retained(Node& node) {
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const auto meta = node.outputs[i].lock();
      if (meta != nullptr && meta->retains_grad && node.gradients[i].defined())
        add_to_own_gradient(*meta, node.gradients[i]);
    }
  }

  static void call(Node& node) { call(node, node.inputs); }

  static void call(Node& node, GradSlots slots) {
    const std::vector<Tensor> dy = std::exchange(node.gradients, {});
    const bool reached =
        std::any_of(dy.begin(), dy.end(), [](const Tensor& g) { return g.defined(); });
    if (!reached) return;
    const Restore<const Node*> running(thread_pass->node, &node);
    if (OpObserver* const observer = op_observer()) observer->before_backward(node);
    node.backward(dy, slots);
    check_for_anomaly(node);
    if (OpObserver* const observer = op_observer()) observer->after_backward(node, dy);
  }

  void mark_finished(AutogradMeta* leaf) {
    const bool known = std::find(finished_.begin(), finished_.end(), leaf) != finished_.end();
    const bool waits = !leaf->hooks.empty() || !leaf->after_gradient.empty();
    if (waits && !known) finished_.push_back(leaf);
  }

  // Empties the gradient of a leaf with hooks, which see what this backward adds to it.
  // Contributions of a backward come from several walks: only the first one finds the gradient
  // before it.
  void set_aside(const std::shared_ptr<AutogradMeta>& leaf) {
    if (leaf->hooks.empty()) return;
    Walk* outermost = this;
    while (Walk* const outer = outermost->scope_.previous()) outermost = outer;
    const auto [entry, is_new] = outermost->before_.try_emplace(leaf);
    if (!is_new || !leaf->holds_gradient) return;
    entry->second = std::exchange(leaf->grad, {});
    leaf->holds_gradient = false;
  }

  // Adds a leaf's new gradient to the one that was set aside.
  void add_before(AutogradMeta& leaf) {
    const auto found = std::find_if(before_.begin(), before_.end(),
                                    [&leaf](const auto& one) { return one.first.get() == &leaf; });
    if (found == before_.end() || !found->second.defined()) return;
    const Tensor before = std::exchange(found->second, {});
    if (leaf.holds_gradient) backend::of(before).elementwise.axpby(1, leaf.grad, 1, before);
    leaf.grad = before;
    leaf.holds_gradient = true;
  }

  // Of leaves that were not finished: after an error, or where no gradient is to be added.
  void restore_gradients() {
    for (auto& [leaf, gradient] : before_) {
      if (!gradient.defined()) continue;
      leaf->grad = std::exchange(gradient, {});
      leaf->holds_gradient = true;
    }
  }

  static void run_hooks(AutogradMeta& leaf) {
    for (const Hook& hook : leaf.hooks) {
      if (!leaf.holds_gradient) break;
      if (const Tensor replaced = replacement(hook, leaf.grad); replaced.defined())
        backend::of(leaf.device).elementwise.copy(replaced, leaf.grad);
    }
  }

  // After an error: clears the state that would confuse the next walk.
  void reset_nodes() {
    for (Node* node : nodes_) {
      node->gradients.clear();
      for (const GradSlot& input : node->inputs) {
        if (input.meta() != nullptr) input.meta()->pending = 0;
      }
    }
  }

  void run_leaf_hooks() {
    for (AutogradMeta* leaf : std::exchange(finished_, {})) {
      if (Walk* const outer = scope_.previous()) {
        outer->mark_finished(leaf);
        continue;
      }
      run_hooks(*leaf);
      add_before(*leaf);
      if (!leaf->holds_gradient) continue;
      for (const auto& function : leaf->after_gradient) function();
    }
  }

  Restore<Walk*> scope_;
  std::vector<Node*> nodes_;
  std::vector<AutogradMeta*> finished_;  // leaves with hooks
  // Of the outermost walk: the leaves with hooks, and the gradients that they had.
  std::map<std::shared_ptr<AutogradMeta>, Tensor> before_;
  int opaque_left_ = 0;
  bool completed_ = false;
};

}  // namespace

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

bool releases_graph() { return thread_pass->releases_graph; }

std::string_view running_op() {
  const Node* const node = thread_pass->node;
  return node == nullptr ? "backward" : name(node->op);
}

std::string_view running_module() {
  const Node* const node = thread_pass->node;
  return node == nullptr ? std::string_view() : std::string_view(node->module);
}

namespace {

// The nodes that computed the roots with a seed, each once.
std::vector<std::shared_ptr<Node>> nodes_of(std::span<const Tensor> roots,
                                            std::span<const Tensor> seeds) {
  std::vector<std::shared_ptr<Node>> nodes;
  for (size_t i = 0; i < roots.size(); ++i) {
    if (!seeds[i].defined() || !roots[i].requires_grad()) continue;
    const std::shared_ptr<Node>& node = roots[i].autograd_meta()->node;
    if (node != nullptr && std::find(nodes.begin(), nodes.end(), node) == nodes.end())
      nodes.push_back(node);
  }
  return nodes;
}

// Starts a walk from the roots and calls run(walk).
template <class F>
void walk_from(std::span<const Tensor> roots, std::span<const Tensor> seeds, F run) {
  const NoGrad no_grad;
  const std::vector<std::shared_ptr<Node>> keep = nodes_of(roots, seeds);
  std::vector<Node*> nodes;
  for (const std::shared_ptr<Node>& node : keep) nodes.push_back(node.get());
  Walk walk(std::move(nodes));
  walk.collect();
  for (size_t i = 0; i < roots.size(); ++i) {
    if (seeds[i].defined() && roots[i].requires_grad())
      walk.seed(roots[i].autograd_meta(), seeds[i]);
  }
  run(walk);
}

}  // namespace

void run_backward(std::span<const Tensor> roots, std::span<const Tensor> seeds,
                  RetainGraph retain) {
  walk_from(roots, seeds, [retain](Walk& walk) { walk.run(retain); });
}

std::vector<Tensor> gradients_of(std::span<const Tensor> roots, std::span<const Tensor> seeds,
                                 std::span<const std::shared_ptr<AutogradMeta>> targets,
                                 RetainGraph retain) {
  std::vector<Tensor> results;
  walk_from(roots, seeds, [&](Walk& walk) { results = walk.run_towards(targets, retain); });
  return results;
}

void run_backward(const Tensor& root, const Tensor& seed, RetainGraph retain) {
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
