#pragma once

#include <string>
#include <vector>

namespace binade::cli {

// Starts the ranks of a run on this machine, as torchrun would: processes of one program, told of
// each other by RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT.
// Returns when all have ended: with 0, or with the exit code of the first that failed, as a shell
// reports it; the others then have a few seconds to end.
int run_ranks(int ranks, const std::vector<std::string>& words);

}  // namespace binade::cli
