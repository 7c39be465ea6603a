#pragma once

#include <string>

namespace binade::test {

// A line of shell that starts that many ranks of a command, told of each other by RANK, WORLD_SIZE,
// MASTER_ADDR and MASTER_PORT alone. It ends with the code of the first rank, in their order, that
// failed.
std::string on_ranks_by_variables(int ranks, const std::string& command);

}  // namespace binade::test
