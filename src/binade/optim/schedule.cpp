#include "binade/optim/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "binade/base/error.h"
#include "binade/optim/optimizer.h"

namespace binade::optim {
namespace {

constexpr std::string_view names[] = {"constant", "linear", "cosine", "cooldown"};

}  // namespace

void set_rates(Optimizer& optimizer, std::span<const RateFunction> rates) {
  if (rates.size() != optimizer.group_count()) {
    fail("set_rates",
         {.argument = "rates",
          .expected = "one per group (" + std::to_string(optimizer.group_count()) + ")",
          .found = std::to_string(rates.size())});
  }
  const int64_t applied = optimizer.steps();
  for (size_t group = 0; group < rates.size(); ++group)
    optimizer.set_group_lr(group, rates[group](applied));
}

std::string_view name(ScheduleKind kind) { return names[static_cast<size_t>(kind)]; }

ScheduleKind parse_schedule(std::string_view text) {
  const auto* found = std::find(std::begin(names), std::end(names), text);
  if (found == std::end(names)) {
    fail("schedule", {.argument = "kind",
                      .expected = "constant, linear, cosine or cooldown",
                      .found = "'" + std::string(text) + "'"});
  }
  return static_cast<ScheduleKind>(found - std::begin(names));
}

void Schedule::check() const {
  if (!(peak >= 0) || !std::isfinite(peak)) {
    fail("schedule", {.argument = "peak",
                      .expected = "a finite number of at least 0",
                      .found = fmt::format("{}", peak)});
  }
  if (!(final_ratio >= 0 && final_ratio <= 1)) {
    fail(
        "schedule",
        {.argument = "final_ratio", .expected = "0 to 1", .found = fmt::format("{}", final_ratio)});
  }
  const int64_t needed = warmup + (kind == ScheduleKind::cooldown ? cooldown : 0);
  if (warmup < 0 || cooldown < 0 || (kind != ScheduleKind::constant && total < needed)) {
    fail("schedule",
         {.argument = "total",
          .expected = "at least warmup and cooldown together (" + std::to_string(needed) + ")",
          .found = std::to_string(total)});
  }
}

double Schedule::at(int64_t step) const {
  if (step < warmup) return peak * static_cast<double>(step + 1) / static_cast<double>(warmup);
  const double low = peak * final_ratio;
  // Progress through the falling part, 0 to 1.
  const auto progress = [&](int64_t begin) {
    const double span = static_cast<double>(std::max<int64_t>(total - begin, 1));
    return std::clamp(static_cast<double>(step - begin) / span, 0.0, 1.0);
  };
  switch (kind) {
    case ScheduleKind::constant:
      return peak;
    case ScheduleKind::linear:
      return peak + (low - peak) * progress(warmup);
    case ScheduleKind::cosine:
      return low + (peak - low) * 0.5 * (1 + std::cos(std::numbers::pi * progress(warmup)));
    case ScheduleKind::cooldown:
      return low + (peak - low) * (1 - std::sqrt(progress(total - cooldown)));
  }
  return peak;
}

}  // namespace binade::optim
