#include "binade/base/execution.h"

#include <gtest/gtest.h>

#include <future>
#include <stdexcept>
#include <string>

#include "binade/base/random.h"
#include "binade/base/restore.h"

namespace binade::execution {
namespace {

constinit Slot<int> setting(Belongs::to_work, [] { return 7; });
constinit Slot<std::string> path(Belongs::to_work);
constinit Slot<int> position(Belongs::to_stream);
constinit Slot<const int*> observer(Belongs::to_thread);

struct Seen {
  int setting = 7;
  std::string path;
  int position = 0;
  const int* observer = nullptr;
  bool operator==(const Seen&) const = default;
};

Seen seen() { return {*setting, *path, *position, *observer}; }

void set(const Seen& values) {
  *setting = values.setting;
  *path = values.path;
  *position = values.position;
  *observer = values.observer;
}

// Longer than what a string holds without memory of its own.
const std::string long_path(100, 'p');

class ExecutionState : public testing::Test {
 protected:
  ~ExecutionState() override { set({}); }
  int target = 0;
};

TEST_F(ExecutionState, EveryThreadStartsWithTheInitialValues) {
  set({1, long_path, 2, &target});
  std::thread([] { EXPECT_EQ(seen(), Seen()); }).join();
  EXPECT_EQ(seen(), (Seen{1, long_path, 2, &target}));
}

TEST_F(ExecutionState, TheInitialOneIsThatOfAThreadThatBegins) {
  const Seen outside{1, long_path, 2, &target};
  set(outside);
  {
    const State initial = State::initial();
    const Scope scope(initial);
    EXPECT_EQ(seen(), (Seen{7, "", 0, &target}));  // what belongs to the thread stays
    set({8, "inside", 9, &target});
  }
  EXPECT_EQ(seen(), outside);
}

TEST_F(ExecutionState, AScopeInstallsWhatBelongsToWorkAndTakesItBack) {
  set({1, long_path, 2, &target});
  const auto captured = capture();
  const int other = 0;
  const Seen outside{3, "elsewhere", 4, &other};
  set(outside);
  for (int i = 0; i < 2; ++i) {  // a state can be installed again
    const Scope scope(*captured);
    EXPECT_EQ(seen(), (Seen{1, long_path, 2, &other}));
    set({5, "inside", 6, &target});
    *observer = &other;
  }
  EXPECT_EQ(seen(), outside);
}

TEST_F(ExecutionState, WorkThatDrawsWhatComesNextMovesTheThreadsPosition) {
  *position = 10;
  const auto captured = capture();
  *position = 20;
  {
    const Scope scope(*captured, Draws::next);
    EXPECT_EQ(++*position, 21);
  }
  EXPECT_EQ(*position, 21);
  {
    const Scope scope(*captured, Draws::again);
    EXPECT_EQ(++*position, 11);
  }
  EXPECT_EQ(*position, 21);
}

TEST_F(ExecutionState, ScopesNestAndEndWithExceptions) {
  set({1, "a", 0, nullptr});
  const auto first = capture();
  set({2, "b", 0, nullptr});
  const auto second = capture();
  set({3, "c", 0, nullptr});
  try {
    const Scope outer(*first);
    const Restore<int> changed(*setting, 9);
    {
      const Scope inner(*second);
      EXPECT_EQ(seen(), (Seen{2, "b", 0, nullptr}));
    }
    EXPECT_EQ(seen(), (Seen{9, "a", 0, nullptr}));
    throw std::runtime_error("left early");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(seen(), (Seen{3, "c", 0, nullptr}));
}

// A slot of a library loaded later, or one that nobody has used so far.
TEST_F(ExecutionState, ASlotFirstUsedAfterACaptureHasItsInitialValueThere) {
  static constinit Slot<int> late(Belongs::to_work, [] { return 5; });
  const auto captured = capture();
  *late = 6;
  {
    const Scope scope(*captured);
    EXPECT_EQ(*late, 5);
  }
  EXPECT_EQ(*late, 6);
  std::thread([captured] {
    const Scope scope(*captured);
    EXPECT_EQ(*late, 5);
  }).join();
}

TEST_F(ExecutionState, ASlotFirstUsedInAScopeKeepsItsValueAfterwards) {
  static constinit Slot<int> late(Belongs::to_work, [] { return 5; });
  const auto captured = capture();
  {
    const Scope scope(*captured);
    *late = 6;
  }
  EXPECT_EQ(*late, 6);
}

TEST_F(ExecutionState, ReferencesToValuesStayValidInScopes) {
  int& value = *setting;
  value = 1;
  const auto captured = capture();
  value = 2;
  {
    const Scope scope(*captured);
    EXPECT_EQ(value, 1);
  }
  EXPECT_EQ(value, 2);
}

TEST_F(ExecutionState, ThreadsAndTasksRunInTheStateOfTheirStart) {
  set({1, long_path, 2, &target});
  const Seen expected{1, long_path, 2, nullptr};
  Seen in_thread;
  Thread thread([&in_thread] { in_thread = seen(); });
  auto task = std::async(std::launch::async, carried([] { return seen(); }));
  auto deferred = std::async(std::launch::deferred, carried([] { return *setting; }));
  *setting = 8;
  thread.join();
  EXPECT_EQ(in_thread, expected);
  EXPECT_EQ(task.get(), expected);
  EXPECT_EQ(deferred.get(), 1);
  EXPECT_EQ(*setting, 8);
}

TEST_F(ExecutionState, AThreadDrawsFromACopyOfTheStream) {
  random::begin_step(5, 1);
  random::next_key();
  uint64_t stream = 0;
  Thread([&stream] { stream = random::next_key().stream; }).join();
  EXPECT_EQ(stream, random::next_key().stream);
}

}  // namespace
}  // namespace binade::execution
