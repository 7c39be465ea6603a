#pragma once

#include <cstdint>

namespace binade::backend {

enum class NormKind : uint8_t { layer, rms };

}  // namespace binade::backend
