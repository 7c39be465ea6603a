#pragma once

#include <cstdint>

#include "binade/base/restore.h"
#include "binade/nn/module.h"

// Initial values of parameters. Each tensor draws from its own random stream, counted per thread in
// the order of construction, so that a model is a function of its seed.
namespace binade::nn::init {

// Restarts this thread's stream count under `seed`. Models call it before their first parameter.
void restart(uint64_t seed);

// For its lifetime, parameters made on this thread stay uninitialized: for models whose weights are
// loaded next.
class SkipInit {
 public:
  SkipInit();

 private:
  Restore<bool> skip_;
};

Tensor normal(const Shape& shape, double deviation, Placement placement);
// Uniform in [-bound, bound).
Tensor uniform(const Shape& shape, double bound, Placement placement);
Tensor constant(const Shape& shape, double value, Placement placement);

}  // namespace binade::nn::init
