#include "binade/optim/ema.h"

#include <fmt/format.h>

#include "binade/autograd/grad_mode.h"
#include "binade/backend/backend.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"

namespace binade::optim {

EMA::EMA(const std::vector<Tensor>& parameters, double decay)
    : parameters_(parameters), decay_(decay) {
  if (!(decay >= 0 && decay < 1))
    fail("EMA", {.argument = "decay", .expected = "0 up to 1", .found = fmt::format("{}", decay)});
  const memory::CategoryGuard category(memory::Category::optimizer);
  const NoGrad no_grad;
  for (const Tensor& parameter : parameters_) {
    averages_.push_back(
        Tensor::empty(parameter.shape(), accumulation_type(parameter.dtype()), parameter.device()));
    copy_(averages_.back(), parameter);
  }
}

void EMA::update_one(size_t index, const Tensor& value) {
  const Tensor& average = averages_[index];
  if (updates_ == 0) return copy_(average, value);
  // average += (1 - decay) * (value - average), exact where they are equal.
  const Tensor difference = Tensor::empty_like(average);
  const auto& kernels = backend::of(average).elementwise;
  kernels.binary(backend::Binary::sub, value, average, difference);
  add_(average, difference, 1 - decay_);
}

void EMA::update() {
  const NoGrad no_grad;
  for (size_t i = 0; i < parameters_.size(); ++i) update_one(i, parameters_[i]);
  ++updates_;
}

void EMA::update(Optimizer& optimizer) {
  const NoGrad no_grad;
  for (size_t i = 0; i < parameters_.size(); ++i)
    update_one(i, optimizer.master_of(parameters_[i]));
  ++updates_;
}

const Tensor& EMA::of(const Tensor& parameter) const {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].same_as(parameter)) return averages_[i];
  }
  fail("EMA",
       {.argument = "parameter", .expected = "an averaged one", .found = describe(parameter)});
}

EMA::Applied::Applied(EMA& ema) : ema_(ema) {
  const NoGrad no_grad;
  for (size_t i = 0; i < ema.parameters_.size(); ++i) {
    saved_.push_back(clone(ema.parameters_[i]));
    copy_(ema.parameters_[i], ema.averages_[i]);
  }
}

EMA::Applied::~Applied() {
  const NoGrad no_grad;
  for (size_t i = 0; i < saved_.size(); ++i) copy_(ema_.parameters_[i], saved_[i]);
}

StateDict EMA::state_dict() const {
  StateDict state;
  state["updates"] = full({}, static_cast<double>(updates_), DType::i64);
  for (size_t i = 0; i < averages_.size(); ++i) state[std::to_string(i)] = averages_[i];
  return state;
}

void EMA::load_state_dict(const StateDict& state) {
  const StateDict mine = state_dict();
  for (const auto& [name, tensor] : mine) {
    const auto found = state.find(name);
    if (found != state.end() && found->second.shape() == tensor.shape()) continue;
    fail("EMA", {.argument = "state " + name,
                 .expected = describe(tensor),
                 .found = found == state.end() ? "nothing" : describe(found->second),
                 .hint = "the state belongs to another model"});
  }
  if (state.size() != mine.size()) {
    fail("EMA", {.argument = "state",
                 .expected = std::to_string(mine.size()) + " entries",
                 .found = std::to_string(state.size())});
  }
  const NoGrad no_grad;
  for (size_t i = 0; i < averages_.size(); ++i) copy_(averages_[i], state.at(std::to_string(i)));
  updates_ = static_cast<int64_t>(state.at("updates").item());
}

}  // namespace binade::optim
