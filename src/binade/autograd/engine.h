#pragma once

#include <string_view>

#include "binade/autograd/node.h"

namespace binade::autograd {

// Walks the graph below `root` from the newest op to the oldest and adds each leaf's gradient to
// it. `seed` is the gradient of root (undefined: 1, root having one element). Unless `retain`,
// the graph gives its saved tensors back and cannot be walked again.
void run_backward(const Tensor& root, const Tensor& seed, bool retain);

// The same from several roots in one walk, each with its seed; roots with an undefined seed are
// left out.
void run_backward(std::span<const Tensor> roots, std::span<const Tensor> seeds, bool retain);

// The op whose backward runs on this thread, for messages; "backward" outside of one.
std::string_view running_op();

}  // namespace binade::autograd
