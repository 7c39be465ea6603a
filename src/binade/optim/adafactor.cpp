#include "binade/optim/adafactor.h"

#include <algorithm>
#include <cmath>

#include "binade/amp/autocast.h"
#include "binade/backend/backend.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/shape.h"

namespace binade::optim {
namespace {

Tensor at_least(const Tensor& x, double low) { return clamp(x, low, INFINITY); }

Tensor root_mean_square(const Tensor& x) {
  return norm(x) * (1 / std::sqrt(static_cast<double>(x.numel())));
}

// state += (value - state) * weight, in place.
void move_toward(const Tensor& state, const Tensor& value, double weight) {
  backend::of(state).elementwise.copy(state + (value - state) * weight, state);
}

// The gradient times the control's factor, in the master weight's type.
Tensor scaled_gradient(const Slot& slot, const StepControl& control) {
  const Tensor gradient = cast(slot.parameter.grad(), accumulation_type(slot.parameter.dtype()));
  return control.gradient_factor.defined() ? gradient * reshape(control.gradient_factor, {})
                                           : gradient;
}

}  // namespace

void visit_options(AdafactorOptions& options, OptionVisitor& visit) {
  visit("lr", options.lr);
  visit("beta2_decay", options.beta2_decay);
  double eps1 = options.eps1.value_or(NAN);  // none: by the type
  visit("eps", {&eps1, &options.eps2});
  options.eps1 = std::isnan(eps1) ? std::nullopt : std::optional(eps1);
  visit("d", options.d);
  visit("weight_decay", options.weight_decay);
}

Adafactor::Adafactor(const std::vector<Tensor>& parameters, const AdafactorOptions& options)
    : Adafactor(std::vector<AdafactorGroup>{{parameters, options}}) {}

Adafactor::Adafactor(const std::vector<AdafactorGroup>& groups)
    : Optimizer(Kind::adafactor, master_options_of(Kind::adafactor, groups)) {
  refuse_stochastic_rounding();
  for (const AdafactorGroup& group : groups) {
    const AdafactorOptions& given = group.options;
    require(name(), {{.argument = "-beta2_decay", .value = -given.beta2_decay},
                     {.argument = "eps1", .value = given.eps1.value_or(0)},
                     {.argument = "eps2", .value = given.eps2},
                     {.argument = "d", .value = given.d, .low = 1},
                     {.argument = "weight_decay", .value = given.weight_decay}});
    group_options_.push_back(given);
    add_group(group.parameters, given.lr);
  }
}

void Adafactor::allocate(size_t, Slot& slot) {
  const Tensor& parameter = slot.parameter;
  const DType dtype = accumulation_type(parameter.dtype());
  if (parameter.rank() < 2) {
    slot.second = new_state(parameter, parameter.shape(), dtype);
    return;
  }
  Shape rows = parameter.shape(), columns = parameter.shape();
  rows[parameter.rank() - 1] = 1;
  columns[parameter.rank() - 2] = 1;
  slot.first = new_state(parameter, rows, dtype);  // mean square of each row
  slot.second = new_state(parameter, columns, dtype);
}

void Adafactor::update(size_t group, std::span<Slot*> slots, const StepControl& control) {
  const amp::Autocast plain(amp::disabled_autocast());
  const AdafactorOptions& given = group_options_[group];
  const double rate = lr(group);
  for (const Slot* slot : slots) {
    const auto count = static_cast<double>(slot->steps);
    const double fresh = std::pow(count, given.beta2_decay);
    const Tensor weight = cast(slot->master.read(slot->parameter), slot->second.dtype());
    const double eps1 = given.eps1.value_or(epsilon(weight.dtype()));
    const Tensor gradient = scaled_gradient(*slot, control), squares = square(gradient);
    Tensor variance = slot->second;
    if (slot->first.defined()) {
      move_toward(slot->first, mean(squares, -1, true), fresh);
      move_toward(slot->second, mean(squares, -2, true), fresh);
      variance = slot->first * slot->second / at_least(mean(slot->first, -2, true), eps1);
    } else {
      move_toward(slot->second, squares, fresh);
    }
    const Tensor change = rsqrt(at_least(variance, eps1 * eps1)) * gradient;
    const Tensor size = at_least(root_mean_square(weight), given.eps2) *
                        std::min(rate, 1 / std::sqrt(count)) /
                        at_least(root_mean_square(change) * (1 / given.d), 1);
    const double keep = 1 - rate * given.weight_decay;
    slot->master.write((keep == 1 ? weight : weight * keep) - change * size, slot->parameter);
  }
}

}  // namespace binade::optim
