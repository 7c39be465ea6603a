#pragma once

#include "binade/ranks/communicator.h"

namespace binade::ranks {

// The processes that a launcher has told of each other by environment variables (torchrun,
// Kubernetes, Slurm, or a shell), over TCP. They meet at rank 0 (meeting_place.h). Fails as
// tcp::meet() does.
std::shared_ptr<Communicator> init_tcp(const Environment& here);

}  // namespace binade::ranks
