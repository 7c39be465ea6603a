#pragma once

#include <memory>

#include "binade/ranks/communicator.h"

namespace binade::ranks {

// Exchanges random bytes, audited at a share of their pieces, and flips one bit in each part that
// arrives, or none. Rank 0 prints how many flips there were on all ranks, how many of them the
// audit found, and what else it found.
void audit_exchanges(const std::shared_ptr<Communicator>& ranks, double share, bool flips);

}  // namespace binade::ranks
