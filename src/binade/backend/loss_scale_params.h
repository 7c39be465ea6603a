#pragma once

#include <cstdint>

namespace binade::backend {

// Parameters of dynamic loss scaling.
struct LossScaleParams {
  double growth = 2;
  double backoff = 0.5;
  int64_t interval = 2000;  // clean steps before the scale grows
  int64_t hysteresis = 1;   // overflows before it shrinks
  double minimum = 0;
};

}  // namespace binade::backend
