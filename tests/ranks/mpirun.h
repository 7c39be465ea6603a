#pragma once

#include <gtest/gtest.h>

#include "binade/ranks/communicator.h"
#include "cli/command.h"

namespace binade::ranks {

// "mpirun -n 3 ", for shells.
inline std::string mpirun(int ranks) {
  return "mpirun --allow-run-as-root --oversubscribe --bind-to none -n " + std::to_string(ranks) +
         " ";
}

// Tests that start processes of their own.
class MpiTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (mpi_version().empty()) GTEST_SKIP() << "this build has no MPI";
    if (cli::run_shell("command -v mpirun").status != 0) GTEST_SKIP() << "there is no mpirun";
  }

  // Runs a scenario of tests/rank_program/main.cpp; alone, without mpirun, for 1.
  static cli::Outcome on_ranks(int ranks, const std::string& scenario) {
    const std::string program = std::string(BINADE_RANKS_PROGRAM) + " " + scenario;
    return cli::run_shell("BINADE_THREADS=1 " + (ranks == 1 ? program : mpirun(ranks) + program));
  }
};

}  // namespace binade::ranks
