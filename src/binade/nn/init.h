#pragma once

#include <cstdint>

#include "binade/nn/module.h"

// Starting values. Each tensor draws from a stream of its own, counted per thread in the order of
// construction, so that a model is a function of its seed.
namespace binade::nn::init {

// Counts streams from zero again under `seed`, on this thread. Models call it before their first
// parameter.
void restart(uint64_t seed);

// Parameters made on this thread while it lives get memory and no values: for models whose weights
// are about to be read.
class SkipInit {
 public:
  SkipInit();
  ~SkipInit();
  SkipInit(const SkipInit&) = delete;
  SkipInit& operator=(const SkipInit&) = delete;

 private:
  bool previous_;
};

Tensor normal(const Shape& shape, double deviation, Placement placement);
// Uniform in [-bound, bound).
Tensor uniform(const Shape& shape, double bound, Placement placement);
Tensor constant(const Shape& shape, double value, Placement placement);

}  // namespace binade::nn::init
