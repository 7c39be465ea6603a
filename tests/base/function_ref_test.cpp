#include "binade/base/function_ref.h"

#include <gtest/gtest.h>

#include <memory>

namespace binade {
namespace {

int call_with(FunctionRef<int(int, int)> f, int a, int b) { return f(a, b); }

int free_function(int a, int b) { return 10 * a + b; }

TEST(FunctionRef, CallsLambdasWithTheirState) {
  int calls = 0;
  const auto add = [&calls](int a, int b) {
    ++calls;
    return a + b;
  };
  EXPECT_EQ(call_with(add, 2, 3), 5);
  EXPECT_EQ(call_with(add, 4, 5), 9);
  EXPECT_EQ(calls, 2);
}

TEST(FunctionRef, CallsAMutableCallableInPlace) {
  int total = 0;
  auto accumulate = [total](int a, int b) mutable { return total += a + b; };
  call_with(accumulate, 1, 2);
  EXPECT_EQ(call_with(accumulate, 3, 4), 10);
}

TEST(FunctionRef, CallsTemporariesAndFunctions) {
  EXPECT_EQ(call_with([](int a, int b) { return a * b; }, 6, 7), 42);
  int (*pointer)(int, int) = free_function;
  EXPECT_EQ(call_with(pointer, 1, 2), 12);
}

TEST(FunctionRef, PassesReferencesThrough) {
  const FunctionRef<void(std::unique_ptr<int>&)> increment = [](std::unique_ptr<int>& value) {
    ++*value;
  };
  auto value = std::make_unique<int>(1);
  increment(value);
  EXPECT_EQ(*value, 2);
}

}  // namespace
}  // namespace binade
