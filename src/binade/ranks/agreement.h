#pragma once

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "binade/base/function_ref.h"
#include "binade/ranks/communicator.h"

namespace binade::ranks {

// Thrown on the other ranks when rank 0 reports a failure: they end without a message.
class FailedElsewhere : public std::exception {
 public:
  const char* what() const noexcept override { return "another rank reports the failure"; }
};

// Runs `work` on every rank, then compares: if it failed anywhere, rank 0 throws an Error with the
// failing ranks' messages, and the others a FailedElsewhere. So no rank waits for one that failed.
// Collective, and `work` must not call collectives.
void together(Communicator& ranks, FunctionRef<void()> work);

// Facts that must be alike on all ranks, by name: {"version", "0.9.0"}.
using AgreedFacts = std::vector<std::pair<std::string, std::string>>;

// Fails as together() does if a rank differs from rank 0 in a fact, and shows both values. Long
// texts (a configuration) are shown by their first different line. A rank alone agrees with itself:
// its facts are not asked for. Collective.
void agree(Communicator& ranks, FunctionRef<AgreedFacts()> facts);

}  // namespace binade::ranks
