#pragma once

#include "binade/ranks/communicator.h"

namespace binade::ranks {

// The ranks of `host` for the memory of a GPU, by NCCL, whose id travels over `host`. `host` must
// outlive it. Fails if the build has no NCCL.
std::shared_ptr<Communicator> make_nccl(Communicator& host, Device device);

// The processes that torchrun has started, without MPI: NCCL carries the host's messages, too, by
// way of the GPU. They meet at MASTER_ADDR and the port after MASTER_PORT.
std::shared_ptr<Communicator> init_nccl(const Environment& here);

}  // namespace binade::ranks
