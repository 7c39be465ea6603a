#pragma once

#include <optional>
#include <string>
#include <vector>

#include "binade/ranks/communicator.h"

namespace binade::ranks {

// Where each rank stands in a roll call; none for a rank that does not answer.
using RollCall = std::vector<std::optional<Operation>>;

// The lowest rank that answered: it speaks for all.
int speaker(const RollCall& answers);

// A roll call as a message: "waiting for rank 3 in step 12, fold of bucket 4, silent for 30 s"; if
// all answer but stand at different collectives, both are named with their bytes. `asking` is the
// operation of the rank that waits.
std::string describe(const RollCall& answers, const Operation& asking, double seconds);

}  // namespace binade::ranks
