#pragma once

#include "binade/backend/loss.h"

namespace binade::backend::cpu {

void ctc(const Ctc& args);
void ctc_backward(const CtcBackward& args);

}  // namespace binade::backend::cpu
