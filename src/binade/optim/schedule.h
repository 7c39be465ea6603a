#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

namespace binade::optim {

enum class ScheduleKind : uint8_t { constant, linear, cosine, cooldown };

// The learning rate as a function of the number of applied steps.
struct Schedule {
  ScheduleKind kind = ScheduleKind::cosine;
  double peak = 1e-3;
  int64_t warmup = 0;        // steps of linear rise: step s < warmup has peak * (s + 1) / warmup
  int64_t total = 0;         // all steps; unused by constant
  double final_ratio = 0.1;  // the last value over the peak
  int64_t cooldown = 0;      // the last steps of `cooldown`, which fall as 1 - sqrt

  // The rate of step `step`, counted from 0. After `total` it stays at the final value.
  double at(int64_t step) const;
  // Fails on invalid values.
  void check() const;
};

// A learning rate by the number of applied steps: a function, or
// [](int64_t step) { return schedule.at(step); }.
using RateFunction = std::function<double(int64_t step)>;
class Optimizer;
// Sets the learning rate that each group has in the next step, by the updates applied so far. Waits
// for a GPU if steps may have been skipped there.
void set_rates(Optimizer& optimizer, std::span<const RateFunction> rates);

std::string_view name(ScheduleKind kind);
ScheduleKind parse_schedule(std::string_view text);

}  // namespace binade::optim
