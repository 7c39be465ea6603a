#pragma once

#include "binade/ranks/communicator.h"

namespace binade::ranks {

// The ranks of `host` for the memory of a GPU, by NCCL, whose id travels over `host`. `host` must
// outlive it. Fails if the build has no NCCL.
std::shared_ptr<Communicator> make_nccl(Communicator& host, Device device);

}  // namespace binade::ranks
