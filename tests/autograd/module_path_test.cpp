#include "binade/autograd/module_path.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

namespace binade::autograd {
namespace {

TEST(ModulePath, GrowsAndShrinksWithItsScopes) {
  EXPECT_EQ(module_path(), "");
  {
    const ModuleScope model("h");
    EXPECT_EQ(module_path(), "h");
    {
      const ModuleScope block("3");
      const ModuleScope attention("attn");
      EXPECT_EQ(module_path(), "h.3.attn");
    }
    EXPECT_EQ(module_path(), "h");
  }
  EXPECT_EQ(module_path(), "");
}

TEST(ModulePath, AnEmptyNameAddsNothing) {
  const ModuleScope model("h");
  const ModuleScope nameless("");
  EXPECT_EQ(module_path(), "h");
}

TEST(ModulePath, CanBeReplacedForAWhile) {
  const ModuleScope model("h");
  {
    const ModulePathGuard other("elsewhere.1");
    EXPECT_EQ(module_path(), "elsewhere.1");
    const ModuleScope below("mlp");
    EXPECT_EQ(module_path(), "elsewhere.1.mlp");
  }
  EXPECT_EQ(module_path(), "h");
}

TEST(ModulePath, IsRestoredWhenSomethingThrows) {
  try {
    const ModuleScope model("h");
    throw std::runtime_error("stop");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(module_path(), "");
}

TEST(ModulePath, BelongsToItsThread) {
  const ModuleScope model("h");
  std::thread([] { EXPECT_EQ(module_path(), ""); }).join();
}

}  // namespace
}  // namespace binade::autograd
