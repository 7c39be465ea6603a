#include "binade/optim/one_cycle.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "binade/base/error.h"

namespace binade::optim {
namespace {

// The values at the ends of the phases: beginning, middle (three_phases only), end.
struct Levels {
  double start, peak, back, end;
};

double between(Annealing annealing, double from, double to, double progress) {
  if (annealing == Annealing::linear) return from + (to - from) * progress;
  return to + (from - to) / 2 * (1 + std::cos(std::numbers::pi * progress));
}

double value_at(const OneCycle& cycle, const Levels& levels, int64_t given) {
  const auto total = static_cast<double>(cycle.total);
  const auto step = static_cast<double>(std::clamp<int64_t>(given, 0, cycle.total - 1));
  const auto part = [&](double from, double to, double begin, double end) {
    return between(cycle.annealing, from, to, end > begin ? (step - begin) / (end - begin) : 1);
  };
  const double top = cycle.rising * total - 1;
  if (step <= top) return part(levels.start, levels.peak, 0, top);
  if (!cycle.three_phases) return part(levels.peak, levels.end, top, total - 1);
  const double returned = 2 * cycle.rising * total - 2;
  if (step <= returned) return part(levels.peak, levels.back, top, returned);
  return part(levels.back, levels.end, returned, total - 1);
}

}  // namespace

void OneCycle::check() const {
  const auto require = [](bool ok, const char* argument, const char* expected, double found) {
    if (!ok)
      fail("OneCycle",
           {.argument = argument, .expected = expected, .found = fmt::format("{}", found)});
  };
  require(max_lr >= 0 && std::isfinite(max_lr), "max_lr", "a finite number of at least 0", max_lr);
  require(total > 0, "total", "at least 1", static_cast<double>(total));
  require(rising >= 0 && rising <= (three_phases ? 0.5 : 1), "rising",
          three_phases ? "0 to 0.5 with three phases" : "0 to 1", rising);
  require(initial_divisor > 0, "initial_divisor", "more than 0", initial_divisor);
  require(final_divisor > 0, "final_divisor", "more than 0", final_divisor);
}

double OneCycle::at(int64_t step) const {
  const double initial = max_lr / initial_divisor;
  return value_at(*this, {initial, max_lr, initial, initial / final_divisor}, step);
}

double OneCycle::momentum_at(int64_t step) const {
  return value_at(*this, {max_momentum, base_momentum, max_momentum, max_momentum}, step);
}

}  // namespace binade::optim
