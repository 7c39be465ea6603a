#pragma once

#include <optional>
#include <string>
#include <vector>

#include "binade/io/tensor_statistics.h"
#include "binade/tensor/tensor.h"

namespace binade::lab {

struct Outlier {
  Shape index;
  double value = 0;
};

// How far a tensor is from the same one computed in f32.
struct ShadowDifference {
  double relative = 0;  // norm of the difference over the shadow's norm
  double largest = 0;   // magnitude of an element's difference
  double flushed = 0;   // fraction of the elements that are 0 here and not there
};

// What a tensor's elements look like.
struct TensorSummary {
  io::Statistics numbers;
  double rms = 0, amax = 0;  // of the finite elements
  // Fraction of the elements at the type's largest number or beyond it; 0 for f32 and f64.
  double saturated = 0;
  std::vector<Outlier> outliers;  // the largest magnitudes, largest first
  std::optional<ShadowDifference> shadow;
};

// `x` is on the host. `shadow`, if defined, has its shape.
TensorSummary summarize(const Tensor& x, const Tensor& shadow = {});

}  // namespace binade::lab
