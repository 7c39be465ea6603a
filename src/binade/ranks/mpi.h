#pragma once

#include "binade/ranks/communicator.h"

namespace binade::ranks {

// Starts MPI and returns all its ranks. Fails if the build has no MPI or if it finds another number
// of processes than the launcher started.
std::shared_ptr<Communicator> init_mpi(const Environment& here);

}  // namespace binade::ranks
