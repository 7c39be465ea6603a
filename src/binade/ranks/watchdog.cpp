#include "binade/ranks/watchdog.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace binade::ranks {
namespace {

std::string joined(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

bool same(const Operation& a, const Operation& b) {
  return a.number == b.number && a.name == b.name;
}

std::string in_words(const Operation& one) {
  return fmt::format("{}, {} ({} bytes, collective {})", one.phase, one.name, one.bytes,
                     one.number);
}

}  // namespace

double elapsed(WatchClock::time_point begin) {
  return std::chrono::duration<double>(WatchClock::now() - begin).count();
}

RollCallMessage RollCallMessage::of(const Operation& operation) {
  RollCallMessage message{.number = operation.number, .operation_bytes = operation.bytes};
  operation.name.copy(message.name.data(), message.name.size() - 1);
  operation.phase.copy(message.phase.data(), message.phase.size() - 1);
  return message;
}

RollCallMessage RollCallMessage::from(const std::string& bytes) {
  RollCallMessage message;
  std::memcpy(&message, bytes.data(), std::min(bytes.size(), sizeof(message)));
  message.name.back() = message.phase.back() = '\0';
  return message;
}

std::string RollCallMessage::bytes() const {
  return {reinterpret_cast<const char*>(this), sizeof(*this)};
}

Operation RollCallMessage::operation() const {
  return {number, name.data(), operation_bytes, phase.data()};
}

int speaker(const RollCall& answers) {
  const auto answered = [](const auto& one) { return one.has_value(); };
  return static_cast<int>(std::find_if(answers.begin(), answers.end(), answered) - answers.begin());
}

std::string describe(const RollCall& answers, const Operation& asking, double seconds) {
  std::vector<int> silent, elsewhere;
  for (size_t rank = 0; rank < answers.size(); ++rank) {
    const auto& one = answers[rank];
    if (!one) {
      silent.push_back(static_cast<int>(rank));
    } else if (!same(*one, asking)) {
      elsewhere.push_back(static_cast<int>(rank));
    }
  }
  if (!silent.empty())
    return fmt::format("waiting for {} in {}, {}, silent for {:.0f} s", joined(silent),
                       asking.phase, asking.name, seconds);
  if (!elsewhere.empty()) {
    return fmt::format("ranks are out of step: {} waits in {}; {} in {}",
                       "rank " + std::to_string(speaker(answers)),
                       in_words(*answers[static_cast<size_t>(speaker(answers))]), joined(elsewhere),
                       in_words(*answers[static_cast<size_t>(elsewhere[0])]));
  }
  return fmt::format("all ranks wait in {}, {} for {:.0f} s: messages do not arrive", asking.phase,
                     asking.name, seconds);
}

}  // namespace binade::ranks
