#include "binade/optim/step_counts.h"

#include <algorithm>

#include "binade/backend/backend.h"
#include "binade/ops/create/create.h"

namespace binade::optim {

int64_t StepCounts::applied() const {
  return started_ -
         (skipped_.defined() ? static_cast<int64_t>(skipped_.strided({}, {}, 0).item()) : 0);
}

void StepCounts::count_step(std::span<Slot* const> slots) {
  ++started_;
  for (Slot* slot : slots) {
    if (!slot->has_gradient()) continue;
    slot->master.follow(slot->parameter, slot->own_elements());
    ++slot->steps;
    slot->parameter.bump_version();
    if (slot->master.is_f32()) slot->master.f32().bump_version();
    slot->master.note_version(slot->parameter);
  }
}

void StepCounts::make_skipped(Device device, std::span<Slot* const> slots) {
  if (skipped_.defined()) return;
  const memory::CategoryGuard category(memory::Category::optimizer);
  skipped_ = zeros({static_cast<int64_t>(slots.size()) + 1}, DType::f32, device);
  for (size_t i = 0; i < slots.size(); ++i)
    slots[i]->skipped = skipped_.strided({1}, {1}, static_cast<int64_t>(i) + 1);
}

void StepCounts::count_skipped(const Tensor& skip, std::span<Slot* const> slots) {
  make_skipped(skip.device(), slots);
  const auto counts = [](const Slot* slot) { return slot->has_gradient(); };
  const auto add = [&](const Tensor& count) {
    backend::of(skip).elementwise.binary(backend::Binary::add, count,
                                         TensorView(skip).expanded(count.shape()), count);
  };
  if (std::all_of(slots.begin(), slots.end(), counts)) return add(skipped_);
  add(skipped_steps());
  for (const Slot* slot : slots) {
    if (counts(slot)) add(slot->skipped);
  }
}

Tensor StepCounts::skipped_steps() const {
  return skipped_.defined() ? skipped_.strided({1}, {1}, 0) : Tensor();
}

void StepCounts::forget_skipped(std::span<Slot* const> slots) {
  if (!skipped_.defined()) return;
  const int64_t known = applied();
  known_skipped_ -= started_ - known;
  started_ = known;
  for (Slot* slot : slots) slot->steps -= static_cast<int64_t>(slot->skipped.item());
  backend::of(skipped_).elementwise.fill(skipped_, 0);
}

void StepCounts::set_rates_after_skips(int64_t updates, std::span<const double> rates) {
  rates_.assign(rates.begin(), rates.end());
  known_skipped_ = started_ - updates;
}

backend::RatesAfterSkips StepCounts::rates_after_skips(double lr, double ratio) const {
  backend::RatesAfterSkips result{.known = static_cast<double>(known_skipped_)};
  for (size_t i = 0; i < std::size(result.lr); ++i)
    result.lr[i] = i < rates_.size() ? rates_[i] * ratio : lr;
  return result;
}

}  // namespace binade::optim
