#include "binade/base/restore.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace binade {
namespace {

TEST(Restore, NestedScopesRestoreInReverseOrder) {
  std::string value = "outer";
  {
    const Restore first(value, std::string("first"));
    EXPECT_EQ(value, "first");
    EXPECT_EQ(first.previous(), "outer");
    {
      const Restore second(value, std::string("second"));
      EXPECT_EQ(value, "second");
    }
    EXPECT_EQ(value, "first");
  }
  EXPECT_EQ(value, "outer");
}

TEST(Restore, RestoresWhenAnExceptionLeavesTheScope) {
  int value = 1;
  try {
    const Restore scope(value, 2);
    throw std::runtime_error("left early");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(value, 1);
}

}  // namespace
}  // namespace binade
