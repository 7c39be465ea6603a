#include "binade/train/watch/alarm.h"

#include <fmt/format.h>

namespace binade::train {

std::string_view name(Cause cause) {
  constexpr std::string_view names[] = {"first loss",  "divergence",     "collapse",
                                        "no gradient", "small gradient", "stalled weights",
                                        "harm"};
  return names[static_cast<size_t>(cause)];
}

std::string to_text(const Alarm& alarm) {
  const std::string module =
      alarm.module.empty() ? "" : fmt::format("; {} stands out", alarm.module);
  return fmt::format("{}: {}{}; {}", name(alarm.cause), alarm.finding, module, alarm.advice);
}

}  // namespace binade::train
