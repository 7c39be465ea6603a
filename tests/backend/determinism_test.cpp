#include "binade/backend/determinism.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>
#include <thread>

namespace binade::backend::determinism_test {
namespace {

TEST(Determinism, IsGivenUpByGuardsAlone) {
  ASSERT_TRUE(deterministic());
  {
    const AnyOrder outer(true);
    EXPECT_FALSE(deterministic());
    const AnyOrder inner(false);
    EXPECT_FALSE(deterministic());
  }
  EXPECT_TRUE(deterministic());
  const AnyOrder required(false);
  EXPECT_TRUE(deterministic());
}

TEST(Determinism, BelongsToAThread) {
  const AnyOrder guard(true);
  bool elsewhere = false;
  std::thread([&] { elsewhere = deterministic(); }).join();
  EXPECT_TRUE(elsewhere);
}

// A new thread reads the environment again.
TEST(Determinism, IsGivenUpByTheEnvironment) {
  for (const char* value : {"0", "1"}) {
    ASSERT_EQ(setenv("BINADE_NONDETERMINISTIC", value, 1), 0);
    bool found = false;
    std::thread([&] { found = deterministic(); }).join();
    EXPECT_EQ(found, std::string_view(value) == "0");
  }
  unsetenv("BINADE_NONDETERMINISTIC");
}

}  // namespace
}  // namespace binade::backend::determinism_test
