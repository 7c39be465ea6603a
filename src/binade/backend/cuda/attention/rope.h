#pragma once

#include "binade/backend/attention.h"

namespace binade::backend::cuda {

void rope(const RotaryEmbedding& call);

}  // namespace binade::backend::cuda
