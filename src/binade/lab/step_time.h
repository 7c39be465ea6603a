#pragma once

#include <array>

#include "binade/autograd/op.h"
#include "binade/lab/plan.h"

// The time of a training step, forecast from measurements of a fraction of a second.
namespace binade::lab {

WorkKind kind_of(Op op);

// What the configuration's device reaches: rates on layers of the configuration's sizes
// (train/machine.h), as far as they take milliseconds.
struct Machine {
  std::array<double, 5> flops = {};  // FLOP/s of matmuls, by train::Precision
  double bandwidth = 0;              // bytes per second
  // Seconds in real steps over those of the roofline, by kind of work: other ops than large matmuls
  // and norms reach less. Apart, because a large model has more matmuls beside its other work than
  // a small one. Measured on a CPU, with one small block of the model's kind; a GPU's step is its
  // roofline.
  using Slowdown = std::array<double, work_kinds>;
  static constexpr Slowdown no_slowdown = {1, 1, 1, 1, 1};
  // By train::Precision.
  std::array<Slowdown, 5> slowdown = {no_slowdown, no_slowdown, no_slowdown, no_slowdown,
                                      no_slowdown};
  std::array<double, 5> weight_cast = {};  // seconds per weight and step
  std::array<double, 5> statistics = {};   // seconds of layer statistics of a block
};
Machine measure_machine(const train::Config& config);

// Seconds of one optimizer step by the roofline model.
double step_seconds(const Forecast& forecast, const Machine& machine);

}  // namespace binade::lab
