#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "binade/binade.h"
#include "binade/lab/diagnosis.h"

// Planted faults: each computes a loss from one parameter, "layer.weight", in module "layer", with
// one thing wrong. The table says what the doctor must answer.
namespace binade::lab::faults {

inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr double nan = std::numeric_limits<double>::quiet_NaN();

struct Fault {
  std::string name;
  double weight = 1;  // all of the parameter's [4, 8] elements
  std::function<Tensor(const Tensor& weight)> run;
  // The right answer.
  std::string op;
  Direction direction = Direction::forward;
  Origin origin = Origin::op;
  Verdict verdict = Verdict::op;
  // The circumstances.
  double scale = 1;
  bool autocast = false;  // to f16
  std::string module = "layer";
  std::string tensor = {};       // part of the finding's tensor
  NamedTensors buffers = {};     // of the module
  NamedTensors parameters = {};  // beside layer.weight
  std::vector<StepRecord> history = {};
  std::string says = {};  // part of the evidence or the advice
};

// A fault of an optimizer, with finite gradients.
struct UpdateFault {
  std::string name;
  std::function<std::unique_ptr<optim::Optimizer>(const Tensor&)> optimizer;
  double weight = 1, gradient = 1;
  DType dtype = DType::f32;
  std::string op;
  std::string tensor;
  Direction direction = Direction::optimizer;
  std::function<void(optim::Optimizer&)> prepare = {};  // such as loading a bad checkpoint
};

std::vector<Fault> forward_faults();
std::vector<Fault> backward_faults();
std::vector<Fault> mask_faults();
std::vector<Fault> divergence_faults();
std::vector<Fault> underflow_faults();
std::vector<Fault> state_faults();
std::vector<Fault> graph_faults();  // recompute, reuse, accumulation, custom ops
std::vector<Fault> everyday_faults();
std::vector<Fault> swallowed_faults();  // overflows that are divided away, own casts, advice
std::vector<UpdateFault> update_faults();

inline Tensor constant(double value, const Shape& shape = {4, 8}, DType dtype = DType::f32) {
  return full(shape, value, dtype);
}

// `others` with one `value` at [2, 5].
inline Tensor spiked(double value, double others = 1) {
  Tensor x = constant(others);
  fill_(x.strided({1}, {1}, 2 * 8 + 5), value);
  return x;
}

inline Tensor f16_of(const Tensor& x) {
  const amp::AutocastState& state = amp::autocast_state();
  return state.enabled ? cast(x, state.dtype) : x;
}

// An op of the user, "mine", that multiplies by `forward`, and its gradient by `backward`.
inline Tensor custom_op(const Tensor& x, double forward, double backward,
                        CastClass cast = CastClass::as_is) {
  return custom({.name = "mine",
                 .cast = cast,
                 .forward = [=](std::span<const Tensor> in) { return in[0] * forward; },
                 .backward = [=](const Tensor& dy, std::span<const Tensor>, const Tensor&,
                                 autograd::GradSlots dx) { dx[0].add(dy * backward); }},
                {x});
}

}  // namespace binade::lab::faults
