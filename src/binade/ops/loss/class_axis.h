#pragma once

#include <optional>

#include "binade/tensor/tensor.h"

namespace binade::ops {

// The axis of x, which has at least one, [..., classes] or [n, classes, ...], that holds classes:
// the one given, or the one without which x has the target's shape. Fails if that is true of both,
// or if the target holds probabilities, which have x's shape.
int class_axis(const char* op, const Tensor& x, const Tensor& target, std::optional<int64_t> given);

}  // namespace binade::ops
