#include "binade/backend/determinism.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

namespace binade::backend::determinism_test {
namespace {

constexpr const char* variable = "BINADE_NONDETERMINISTIC";

// Runs each test without the variable, whatever the environment has. A thread reads it once, so
// that the tests run in new ones.
class Determinism : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const char* given = std::getenv(variable)) given_ = given;
    unsetenv(variable);
  }
  void TearDown() override { given_ ? setenv(variable, given_->c_str(), 1) : unsetenv(variable); }

  template <class F>
  static void in_new_thread(F&& body) {
    std::thread(std::forward<F>(body)).join();
  }

 private:
  std::optional<std::string> given_;
};

TEST_F(Determinism, IsGivenUpByGuardsAlone) {
  in_new_thread([] {
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
  });
}

TEST_F(Determinism, BelongsToAThread) {
  const AnyOrder guard(true);
  in_new_thread([] { EXPECT_TRUE(deterministic()); });
}

TEST_F(Determinism, IsGivenUpByTheEnvironment) {
  for (const char* value : {"0", "1"}) {
    ASSERT_EQ(setenv(variable, value, 1), 0);
    in_new_thread([&] { EXPECT_EQ(deterministic(), std::string_view(value) == "0"); });
  }
}

}  // namespace
}  // namespace binade::backend::determinism_test
