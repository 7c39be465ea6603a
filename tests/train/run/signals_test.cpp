#include "binade/train/run/signals.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace binade::train {
namespace {

TEST(SignalGuard, TheFirstStopSignalCounts) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const SignalGuard guard;
    EXPECT_EQ(guard.stop_signal(), 0);
    ::raise(signal);
    ::raise(SIGTERM);
    ::raise(SIGHUP);
    EXPECT_EQ(guard.stop_signal(), signal);
  }
}

TEST(SignalGuard, ASaveIsAskedForOnce) {
  SignalGuard guard;
  EXPECT_FALSE(guard.take_save_request());
  ::raise(SIGUSR1);
  EXPECT_EQ(guard.stop_signal(), 0);
  EXPECT_TRUE(guard.take_save_request());
  EXPECT_FALSE(guard.take_save_request());
}

// Requests in the start-up of a run are answered after its first step.
TEST(SignalGuard, ASaveMayBeAskedForBefore) {
  keep_save_requests();
  ::raise(SIGUSR1);
  {
    SignalGuard guard;
    EXPECT_TRUE(guard.take_save_request());
    ::raise(SIGUSR1);
  }
  SignalGuard of_the_next_run;
  EXPECT_FALSE(of_the_next_run.take_save_request());
}

TEST(SignalGuard, FailedWritesAreNoSignals) {
  const SignalGuard guard;
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ::close(ends[0]);
  EXPECT_EQ(::write(ends[1], "x", 1), -1);
  ::close(ends[1]);
  ::raise(SIGXFSZ);
}

using SignalGuardDeathTest = ::testing::Test;

TEST(SignalGuardDeathTest, ASecondCtrlCEndsTheProcess) {
  EXPECT_EXIT(
      {
        const SignalGuard guard;
        ::raise(SIGTERM);
        ::raise(SIGINT);
      },
      ::testing::KilledBySignal(SIGINT), "");
}

TEST(SignalGuardDeathTest, GivesBackWhatWasThere) {
  EXPECT_EXIT(
      {
        ::signal(SIGHUP, SIG_IGN);  // as nohup does
        {
          const SignalGuard guard;
          ::raise(SIGHUP);
          if (guard.stop_signal() != 0) ::_exit(1);
        }
        ::raise(SIGTERM);
      },
      ::testing::KilledBySignal(SIGTERM), "");
}

}  // namespace
}  // namespace binade::train
