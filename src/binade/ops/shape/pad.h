#pragma once

#include <cstdint>
#include <vector>

#include "binade/tensor/tensor.h"

namespace binade {

enum class PadMode : uint8_t {
  constant,
  reflect,    // mirrored at the first and last element, which are not repeated
  replicate,  // the first and last element
};

struct PadOptions {
  PadMode mode = PadMode::constant;
  double value = 0;  // of constant padding
};

// x with elements added before and after. `padding` holds pairs (before, after), from the last axis
// on, as PyTorch's: {left, right, top, bottom}. Negative constant padding removes elements.
Tensor pad(const Tensor& x, const std::vector<int64_t>& padding, PadOptions options = {});

}  // namespace binade
