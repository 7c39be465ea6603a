#include "binade/optim/plateau.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace binade::optim {

ReduceOnPlateau::ReduceOnPlateau(Rates optimizer, const PlateauOptions& options)
    : rates_(std::move(optimizer)),
      options_(options),
      best_(options.better == PlateauOptions::Better::smaller ? INFINITY : -INFINITY) {
  if (!(options.factor > 0 && options.factor < 1)) {
    fail("ReduceOnPlateau", {.argument = "factor",
                             .expected = "between 0 and 1",
                             .found = fmt::format("{}", options.factor)});
  }
}

bool ReduceOnPlateau::is_better(double metric) const {
  const bool is_relative = options_.threshold_kind == PlateauOptions::Threshold::relative;
  const double threshold = options_.threshold;
  if (options_.better == PlateauOptions::Better::smaller)
    return metric < (is_relative ? best_ * (1 - threshold) : best_ - threshold);
  return metric > (is_relative ? best_ * (1 + threshold) : best_ + threshold);
}

void ReduceOnPlateau::step(double metric) {
  if (is_better(metric)) {
    best_ = metric;
    bad_ = 0;
  } else {
    ++bad_;
  }
  if (cooling_ > 0) {
    --cooling_;
    bad_ = 0;
  }
  if (bad_ <= options_.patience) return;
  for (size_t group = 0; group < rates_.count(); ++group) {
    const double old = rates_.get(group),
                 reduced = std::max(old * options_.factor, options_.min_lr);
    if (old - reduced > options_.eps) rates_.set(group, reduced);
  }
  cooling_ = options_.cooldown;
  bad_ = 0;
}

std::map<std::string, double> ReduceOnPlateau::state() const {
  return {{"best", best_},
          {"bad", static_cast<double>(bad_)},
          {"cooling", static_cast<double>(cooling_)}};
}

void ReduceOnPlateau::load_state(const std::map<std::string, double>& state) {
  const auto entry = [&](const char* name) {
    const auto found = state.find(name);
    if (found == state.end()) {
      fail("ReduceOnPlateau",
           {.argument = "state", .expected = std::string(name), .found = "no such entry"});
    }
    return found->second;
  };
  best_ = entry("best");
  bad_ = static_cast<int64_t>(entry("bad"));
  cooling_ = static_cast<int64_t>(entry("cooling"));
}

}  // namespace binade::optim
