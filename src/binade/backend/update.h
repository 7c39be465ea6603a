#pragma once

#include <cstdint>

#include "binade/tensor/tensor.h"

// The arguments of optimizer updates.
namespace binade::backend {

// One parameter of a multi-tensor update. The update changes `master`, f32; `copy`, if present, is
// the low-precision parameter derived from it. If `rest` is present, `master` is a bf16 parameter,
// and the two are the halves of an f32 master weight (formats/split_f32.h).
struct UpdateItem {
  TensorView master;
  TensorView rest = {};  // int16_t in u8, two for each element
  TensorView gradient;   // f32, f16 or bf16
  TensorView first;      // momentum or first moment: f32, bf16 or u8 (8-bit moments)
  TensorView second;     // second moment
  TensorView third;      // largest second moment (amsgrad) or mean gradient (centered RMSprop)
  // f32, of 8-bit moments: the largest magnitude of each formats::dynamic_block elements.
  TensorView first_scale, second_scale;
  TensorView copy;
  // f32 [1], on devices whose skipped steps the host learns about later: how many of the `count`
  // updates below were skipped. Bias correction and first_step are computed without these.
  TensorView skipped;
};

// Learning rates for a device that knows of skipped steps before the host does.
struct RatesAfterSkips {
  static constexpr int capacity = 3;
  double lr[capacity] = {};  // instead of the update's, after 1, 2, 3 skips unknown to the host
  double known = 0;          // skips that the host had counted
};

// Read on the device when the update runs, so that nothing waits for the host. All optional.
struct UpdateControl {
  TensorView gradient_factor = {};  // f32 [1]: multiplies every gradient (1 / loss scale, clipping)
  TensorView skip = {};             // f32 [1]: if not 0, nothing is changed
  // f64 [8]: lr, count, correction1, correction2 and the four numbers of RatesAfterSkips, which
  // replace those of the host: a captured update (backend/graph.h) is replayed with other values.
  TensorView hyper = {};
  // f32 [1], on devices whose skipped steps the host learns about later: all skipped steps.
  TensorView skipped_steps = {};
};

}  // namespace binade::backend
