#pragma once

#include <functional>
#include <memory>

#include "binade/ranks/communicator.h"

namespace binade::cli {

// Calls `work` with the ranks that a launcher has started, or with this process alone. On several
// ranks an error is reported once, by rank 0, and ends them all with its exit code.
void on_ranks(const std::function<void(const std::shared_ptr<ranks::Communicator>&)>& work);

}  // namespace binade::cli
