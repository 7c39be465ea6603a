#pragma once

#include <cstdint>

namespace binade {

// An activation that a linear layer can apply to its output. gelu is the exact one (erf), gelu_tanh
// its tanh approximation.
enum class Activation : uint8_t { none, relu, gelu, gelu_tanh, silu };

}  // namespace binade
