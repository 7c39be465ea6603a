#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "binade/ranks/communicator.h"

namespace binade::ranks {

using WatchClock = std::chrono::steady_clock;

// Seconds since then.
double elapsed(WatchClock::time_point begin);

// Seconds of waiting after which a message says for whom.
inline constexpr double warning_time = 30;
// Ranks that wait look for a roll call all the time: one that does not answer in these seconds is
// silent.
inline constexpr double answer_time = 2;
// The speaker of the ranks ends all in these seconds.
inline constexpr double speaking_time = 3;

// A question or an answer of a roll call, as bytes.
struct RollCallMessage {
  int64_t number = 0, operation_bytes = 0;
  std::array<char, 96> name{}, phase{};
  int64_t is_question = 0;

  static RollCallMessage of(const Operation& operation);
  static RollCallMessage from(const std::string& bytes);
  std::string bytes() const;
  Operation operation() const;
};

// Where each rank stands in a roll call; none for a rank that does not answer.
using RollCall = std::vector<std::optional<Operation>>;

// The lowest rank that answered: it speaks for all.
int speaker(const RollCall& answers);

// A roll call as a message: "waiting for rank 3 in step 12, fold of bucket 4, silent for 30 s"; if
// all answer but stand at different collectives, both are named with their bytes. `asking` is the
// operation of the rank that waits.
std::string describe(const RollCall& answers, const Operation& asking, double seconds);

}  // namespace binade::ranks
