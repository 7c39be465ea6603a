#pragma once

#include <string>

#include "binade/base/function_ref.h"

namespace binade::ranks {

// The place of this process among those that a launcher started together.
struct Environment {
  int rank = 0;
  int size = 1;
  int local_rank = 0;    // among the processes of this machine
  int local_size = 1;    // of this machine; 1 if the launcher does not say
  std::string launcher;  // "mpirun", "PMI", "PMIx", "torchrun" or "srun"; empty: started alone

  bool operator==(const Environment&) const = default;
};

// The value of an environment variable, or null.
using Variables = FunctionRef<const char*(const char* name)>;

// Reads the variables of Open MPI (OMPI_COMM_WORLD_*), PMI (PMI_RANK, PMI_SIZE), torchrun (RANK,
// WORLD_SIZE, ...) and a job step of Slurm (SLURM_PROCID, SLURM_STEP_NUM_TASKS, ...; "PMIx" if
// there is a PMIX_RANK). Fails if a set is incomplete, if a number is out of range, or if two sets
// disagree. Slurm's count only if they are complete and no other set is there: scripts of a job
// have some of them, and mpirun inherits those of its daemons.
Environment read_environment(Variables variables);

// The environment of this process.
Environment environment();

}  // namespace binade::ranks
