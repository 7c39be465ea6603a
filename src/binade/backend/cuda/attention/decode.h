#pragma once

#include "binade/backend/attention.h"

namespace binade::backend::cuda {

void decode(const AttentionDecode& call);

}  // namespace binade::backend::cuda
