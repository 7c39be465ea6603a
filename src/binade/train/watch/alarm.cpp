#include "binade/train/watch/alarm.h"

#include <fmt/format.h>

namespace binade::train {

std::string_view name(Cause cause) {
  switch (cause) {
    case Cause::first_loss:
      return "first loss";
    case Cause::divergence:
      return "divergence";
    case Cause::collapse:
      return "collapse";
    case Cause::no_gradient:
      return "no gradient";
    case Cause::small_gradient:
      return "small gradient";
    case Cause::stalled:
      return "stalled weights";
  }
  return "";
}

std::string to_text(const Alarm& alarm) {
  const std::string module =
      alarm.module.empty() ? "" : fmt::format("; {} stands out", alarm.module);
  return fmt::format("{}: {}{}; {}", name(alarm.cause), alarm.finding, module, alarm.advice);
}

}  // namespace binade::train
