#include "binade/ranks/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "binade/base/error.h"

namespace binade::ranks {
namespace {

using ::testing::HasSubstr;
using Values = std::map<std::string, std::string>;

Environment read(const Values& values) {
  return read_environment([&](const char* name) {
    const auto found = values.find(name);
    return found == values.end() ? nullptr : found->second.c_str();
  });
}

std::string refusal_of(const Values& values) {
  try {
    read(values);
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST(RankEnvironment, IsOfOneProcessWithoutALauncher) { EXPECT_EQ(read({}), Environment{}); }

TEST(RankEnvironment, ReadsEachLaunchersVariables) {
  EXPECT_EQ(read({{"OMPI_COMM_WORLD_RANK", "3"},
                  {"OMPI_COMM_WORLD_SIZE", "8"},
                  {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                  {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}),
            (Environment{3, 8, 1, 2, "mpirun"}));
  EXPECT_EQ(read({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}), (Environment{0, 2, 0, 1, "PMI"}));
  EXPECT_EQ(read({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "1"}}),
            (Environment{1, 2, 1, 1, "torchrun"}));
  EXPECT_EQ(read({{"SLURM_PROCID", "5"}, {"SLURM_STEP_NUM_TASKS", "6"}, {"SLURM_LOCALID", "2"}}),
            (Environment{5, 6, 2, 1, "srun"}));
  EXPECT_EQ(read({{"SLURM_PROCID", "5"}, {"SLURM_STEP_NUM_TASKS", "6"}, {"PMIX_RANK", "5"}}),
            (Environment{5, 6, 0, 1, "PMIx"}));
}

// Slurm starts the daemons of mpirun, whose processes inherit their variables.
TEST(RankEnvironment, BelievesMpirunInsideOfSlurm) {
  EXPECT_EQ(read({{"SLURM_PROCID", "0"},
                  {"SLURM_STEP_NUM_TASKS", "1"},
                  {"OMPI_COMM_WORLD_RANK", "3"},
                  {"OMPI_COMM_WORLD_SIZE", "4"}}),
            (Environment{3, 4, 0, 1, "mpirun"}));
}

// As Slurm 22.05 sets them for the script of a job with 4 tasks, and for an allocation's shell.
TEST(RankEnvironment, IsOfOneProcessInAJobsScriptAndAnAllocationsShell) {
  EXPECT_EQ(read({{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}, {"SLURM_NTASKS", "4"}}),
            Environment{});
  EXPECT_EQ(read({{"SLURM_NTASKS", "4"}}), Environment{});
}

TEST(RankEnvironment, RefusesContradictions) {
  EXPECT_THAT(refusal_of({{"OMPI_COMM_WORLD_RANK", "1"},
                          {"OMPI_COMM_WORLD_SIZE", "2"},
                          {"RANK", "1"},
                          {"WORLD_SIZE", "4"}}),
              HasSubstr("rank 1 of 2 by mpirun, rank 1 of 4 by torchrun"));
  EXPECT_EQ(refusal_of({{"OMPI_COMM_WORLD_RANK", "1"},
                        {"OMPI_COMM_WORLD_SIZE", "2"},
                        {"PMI_RANK", "1"},
                        {"PMI_SIZE", "2"}}),
            "none");
}

TEST(RankEnvironment, RefusesIncompleteSetsAndBadNumbers) {
  EXPECT_THAT(refusal_of({{"WORLD_SIZE", "2"}}),
              HasSubstr("RANK: expected a number beside WORLD_SIZE"));
  EXPECT_THAT(refusal_of({{"PMI_RANK", "2"}}),
              HasSubstr("PMI_SIZE: expected a number beside PMI_RANK"));
  EXPECT_THAT(refusal_of({{"PMI_RANK", "2"}, {"PMI_SIZE", "2"}}),
              HasSubstr("PMI_RANK: expected 0 to 1, found '2'"));
  EXPECT_THAT(refusal_of({{"RANK", "x"}, {"WORLD_SIZE", "2"}}), HasSubstr("found 'x'"));
  EXPECT_THAT(refusal_of({{"RANK", "0"}, {"WORLD_SIZE", "2 "}}), HasSubstr("found '2 '"));
}

}  // namespace
}  // namespace binade::ranks
