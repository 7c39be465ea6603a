#pragma once

#include <cstdint>

namespace binade::ranks {

// The order in which ranks' gradients are added: that of micro-batches, or the one that the message
// library chooses, which depends on the number of ranks.
enum class ReduceOrder : uint8_t { fixed, any };

}  // namespace binade::ranks
