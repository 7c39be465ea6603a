#include "binade/ranks/tcp/meeting_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "binade/base/error.h"

namespace binade::ranks::tcp {
namespace {

using ::testing::HasSubstr;
using Given = std::map<std::string, std::string>;

std::string place(const Given& given, const std::string& launcher) {
  return to_string(meeting_place(
      [&](const char* name) {
        const auto found = given.find(name);
        return found == given.end() ? nullptr : found->second.c_str();
      },
      {.rank = 1, .size = 3, .launcher = launcher}));
}

std::string refused(const Given& given, const std::string& launcher) {
  try {
    return place(given, launcher);
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(MeetingPlace, IsOfTheMastersVariables) {
  EXPECT_EQ(place({{"MASTER_ADDR", "node7"}, {"MASTER_PORT", "29500"}}, "torchrun"), "node7:29500");
  EXPECT_EQ(place({{"MASTER_ADDR", "fe80::1"}, {"MASTER_PORT", "1"}}, "srun"), "[fe80::1]:1");
}

// Its agent listens at MASTER_PORT.
TEST(MeetingPlace, IsNextToTheStoreOfTorchrun) {
  const Given given{{"MASTER_ADDR", "a"}, {"MASTER_PORT", "29500"}};
  for (const auto& [value, port] : {std::pair("True", "a:29501"), {"False", "a:29500"}}) {
    Given with = given;
    with["TORCHELASTIC_USE_AGENT_STORE"] = value;
    EXPECT_EQ(place(with, "torchrun"), port);
  }
  EXPECT_THAT(refused({{"MASTER_ADDR", "a"},
                       {"MASTER_PORT", "65535"},
                       {"TORCHELASTIC_USE_AGENT_STORE", "True"}},
                      "torchrun"),
              HasSubstr("MASTER_PORT: expected a port of 1 to 65534"));
}

TEST(MeetingPlace, OfAStepOfSlurmNeedsNoVariablesOfTheUser) {
  const Given step{{"SLURM_JOB_ID", "41"},
                   {"SLURM_STEP_ID", "2"},
                   {"SLURM_JOB_NODELIST", "a[1-9]"},
                   {"SLURM_STEP_NODELIST", "a[3-5,7]"}};
  EXPECT_EQ(place(step, "srun"), "a3:24143");
  Given next = step;
  next["SLURM_STEP_ID"] = "3";
  EXPECT_EQ(place(next, "srun"), "a3:24144");
  next["MASTER_ADDR"] = "b";
  EXPECT_EQ(place(next, "srun"), "b:24144");
  next.erase("SLURM_STEP_NODELIST");
  next.erase("MASTER_ADDR");
  next["MASTER_PORT"] = "5000";
  EXPECT_EQ(place(next, "srun"), "a1:5000");
}

TEST(MeetingPlace, FirstHostOfAListOfSlurm) {
  EXPECT_EQ(first_host("login"), "login");
  EXPECT_EQ(first_host("b2,a1"), "b2");
  EXPECT_EQ(first_host("node[03-05,9],login"), "node03");
  EXPECT_EQ(first_host("n[7,9]"), "n7");
  EXPECT_EQ(first_host("login,n[7-9]"), "login");
  EXPECT_EQ(first_host("n[12]-ib,x"), "n12-ib");
}

TEST(MeetingPlace, RefusesWhatIsMissingOrNoPort) {
  EXPECT_THAT(refused({{"MASTER_PORT", "29500"}}, "torchrun"),
              HasSubstr("MASTER_ADDR: expected the name or address of rank 0's machine"));
  EXPECT_THAT(refused({{"MASTER_ADDR", "a"}}, "torchrun"),
              HasSubstr("MASTER_PORT: expected a port of 1 to 65535, the same on all ranks, found "
                        "none"));
  for (const char* port : {"0", "65536", "29500 ", "x", "-1"})
    EXPECT_THAT(refused({{"MASTER_ADDR", "a"}, {"MASTER_PORT", port}}, "srun"),
                HasSubstr("found '" + std::string(port) + "'"));
}

}  // namespace
}  // namespace binade::ranks::tcp
