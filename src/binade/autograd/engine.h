#pragma once

#include <string_view>

#include "binade/autograd/node.h"

namespace binade::autograd {

// Walks the graph below `root` from the newest op to the oldest and adds to the gradient of each
// leaf. `seed` is the gradient of root; undefined means 1 and requires that root has one element.
// Unless retained, the graph releases its saved tensors and cannot be walked again.
void run_backward(const Tensor& root, const Tensor& seed, RetainGraph retain = RetainGraph::no);

// run_backward() from several roots in one walk. Roots with an undefined seed are skipped.
void run_backward(std::span<const Tensor> roots, std::span<const Tensor> seeds,
                  RetainGraph retain = RetainGraph::no);

// The gradients of the targets alone, in one walk; see grad.h. A target that is a leaf must have
// its own gradient set aside.
std::vector<Tensor> gradients_of(std::span<const Tensor> roots, std::span<const Tensor> seeds,
                                 std::span<const std::shared_ptr<AutogradMeta>> targets,
                                 RetainGraph retain);

// The gradient that a backward of `root` starts from: `seed`, or 1 if it is undefined.
Tensor first_gradient(const Tensor& root, const Tensor& seed);

// Whether the backward that runs on this thread releases the graph behind it, so that an op may
// overwrite a tensor that only its own backward has saved.
bool releases_graph();

// Name of the op whose backward runs on this thread, or "backward"; for messages.
std::string_view running_op();
// Path of the module whose op's backward runs on this thread; empty if none does.
std::string_view running_module();

}  // namespace binade::autograd
