#pragma once

#include "binade/backend/quantize.h"

namespace binade::backend::cpu {

// QuantizeKernels::quantize_coded.
void quantize_coded(TensorView x, const GroupCoding& coding, const QuantizedView& out);

}  // namespace binade::backend::cpu
