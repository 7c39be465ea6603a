#include "binade/optim/lr_scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "binade/optim/optimizer.h"

namespace binade::optim {
namespace {

void require_positive(const char* scheduler, const char* argument, int64_t value) {
  if (value > 0) return;
  fail(scheduler, {.argument = argument, .expected = "at least 1", .found = std::to_string(value)});
}

}  // namespace

Rates::Rates(Optimizer& optimizer)
    : count([&optimizer] { return optimizer.group_count(); }),
      get([&optimizer](size_t group) { return optimizer.lr(group); }),
      set([&optimizer](size_t group, double lr) { optimizer.set_group_lr(group, lr); }),
      set_momentum([&optimizer](double momentum) { optimizer.set_momentum(momentum); }) {}

LRScheduler::LRScheduler(Rates rates) : rates_(std::move(rates)) {
  for (size_t group = 0; group < rates_.count(); ++group) base_.push_back(rates_.get(group));
}

std::vector<double> LRScheduler::get_last_lr() const {
  std::vector<double> result;
  for (size_t group = 0; group < rates_.count(); ++group) result.push_back(rates_.get(group));
  return result;
}

void LRScheduler::set_rates() {
  // Groups that were added later keep their rates.
  for (size_t group = 0; group < base_.size(); ++group)
    rates_.set(group, rate(group, rates_.get(group)));
}

void LRScheduler::step() {
  ++epoch_;
  set_rates();
  after_step();
}

StepLR::StepLR(Rates optimizer, int64_t step_size, double gamma)
    : LRScheduler(std::move(optimizer)), step_size_(step_size), gamma_(gamma) {
  require_positive("StepLR", "step_size", step_size);
}

double StepLR::rate(size_t, double now) const {
  return epoch() % step_size_ == 0 ? now * gamma_ : now;
}

double MultiStepLR::rate(size_t, double now) const {
  const auto count = std::count(milestones_.begin(), milestones_.end(), epoch());
  return now * std::pow(gamma_, static_cast<double>(count));
}

LambdaLR::LambdaLR(Rates optimizer, Factor factor)
    : LambdaLR(std::move(optimizer), std::vector{std::move(factor)}) {}

LambdaLR::LambdaLR(Rates optimizer, std::vector<Factor> factors)
    : LRScheduler(std::move(optimizer)), factors_(std::move(factors)) {
  if (factors_.size() != 1 && factors_.size() != base_lrs().size()) {
    fail("LambdaLR", {.argument = "factors",
                      .expected = "one, or " + std::to_string(base_lrs().size()),
                      .found = std::to_string(factors_.size())});
  }
  set_rates();
}

double LambdaLR::rate(size_t group, double) const {
  return base_lrs()[group] * factors_[factors_.size() == 1 ? 0 : group](epoch());
}

CosineAnnealingLR::CosineAnnealingLR(Rates optimizer, int64_t t_max, double eta_min)
    : LRScheduler(std::move(optimizer)), t_max_(t_max), eta_min_(eta_min) {
  require_positive("CosineAnnealingLR", "t_max", t_max);
}

double CosineAnnealingLR::rate(size_t group, double) const {
  const double phase =
      std::numbers::pi * static_cast<double>(epoch()) / static_cast<double>(t_max_);
  return eta_min_ + (base_lrs()[group] - eta_min_) * (1 + std::cos(phase)) / 2;
}

LinearLR::LinearLR(Rates optimizer, double start_factor, double end_factor, int64_t total_iters)
    : LRScheduler(std::move(optimizer)),
      start_(start_factor),
      end_(end_factor),
      total_(total_iters) {
  require_positive("LinearLR", "total_iters", total_iters);
  set_rates();
}

double LinearLR::rate(size_t group, double) const {
  const double part = static_cast<double>(std::min(epoch(), total_)) / static_cast<double>(total_);
  return base_lrs()[group] * (start_ + (end_ - start_) * part);
}

OneCycleLR::OneCycleLR(Rates optimizer, double max_lr, int64_t total_steps, OneCycle policy,
                       bool cycle_momentum)
    : LRScheduler(std::move(optimizer)), policy_(policy), cycle_momentum_(cycle_momentum) {
  policy_.max_lr = max_lr;
  policy_.total = total_steps;
  policy_.check();
  set_rates();
  after_step();
}

double OneCycleLR::rate(size_t, double) const { return policy_.at(epoch()); }

void OneCycleLR::after_step() {
  if (cycle_momentum_) rates().set_momentum(policy_.momentum_at(epoch()));
}

}  // namespace binade::optim
