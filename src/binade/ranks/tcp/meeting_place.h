#pragma once

#include "binade/ranks/environment.h"
#include "binade/ranks/tcp/socket.h"

namespace binade::ranks::tcp {

// Where the ranks meet, at rank 0: MASTER_ADDR and MASTER_PORT. torchrun listens at that port
// itself (TORCHELASTIC_USE_AGENT_STORE): theirs is the next. In a job step of Slurm either may be
// missing: the host is then the first of SLURM_STEP_NODELIST, the port one of 20000 to 29999 that
// the step's number gives. Fails and names the variable if one is missing or not valid.
Address meeting_place(Variables variables, const Environment& here);

// The first host of a list in Slurm's form: "node[03-05,9],login" has "node03".
std::string first_host(const std::string& list);

}  // namespace binade::ranks::tcp
