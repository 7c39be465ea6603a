#pragma once

#include "binade/dist/communicator.h"

namespace binade::dist {

// Starts MPI and returns all its ranks. Fails if the build has no MPI or if it finds another number
// of processes than the launcher started.
std::shared_ptr<Communicator> init_mpi(const Environment& here);

}  // namespace binade::dist
