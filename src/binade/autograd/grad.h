#pragma once

#include <vector>

#include "binade/tensor/tensor.h"

namespace binade::autograd {

struct GradOptions {
  std::vector<Tensor> seeds = {};  // gradients of the outputs; default: 1 for each scalar output
  RetainGraph retain = RetainGraph::no;
  bool allow_unused = false;  // an input that no output depends on gets an undefined gradient
  bool create_graph = false;  // refused: gradients are not recorded, so they have no gradients
};

// The sum of the outputs' gradients with respect to each input, a leaf or a result of an op, as
// PyTorch's torch.autograd.grad. No leaf's grad() changes.
std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const GradOptions& options = {});

}  // namespace binade::autograd
