#include "binade/lab/other_load.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

namespace binade::lab {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds duration(400);

TEST(OtherLoad, CountsOtherProcesses) {
  const OtherLoad others;
  const pid_t child = ::fork();
  if (child == 0) {
    for (const auto begin = Clock::now(); Clock::now() - begin < duration;) {
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  // A busy machine gives the child a part of a core.
  EXPECT_GT(others.fraction(), 0.1 / std::thread::hardware_concurrency());
  EXPECT_LE(others.fraction(), 1);
}

}  // namespace
}  // namespace binade::lab
