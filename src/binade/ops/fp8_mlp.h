#pragma once

#include <memory>

#include "binade/amp/fp8.h"

namespace binade {

// A linear whose products all run in FP8.
struct Fp8Layer {
  Tensor weight, bias;
  const amp::Fp8Recipe* recipe;
  std::shared_ptr<amp::Fp8Linear> state;
};

// down(swiglu(up(x))) by delayed recipes, as one op: swiglu and its gradient are written as FP8
// codes alone. Bit for bit fp8_linear(swiglu(fp8_linear(x, up)), down), and the same notes in both
// states. Not for f64.
Tensor fp8_swiglu_mlp(const Tensor& x, const Fp8Layer& up, const Fp8Layer& down);

// Whether fp8_swiglu_mlp of x may stand for those three in the module running now: autocast leaves
// swiglu in the type of its input.
bool swiglu_keeps_type(const Tensor& x);

}  // namespace binade
