#include "binade/base/suggestion.h"

#include <gtest/gtest.h>

namespace binade {
namespace {

const std::vector<std::string> names = {
    "lr", "steps", "pack", "accumulate", "checkpoint-every", "checkpoint"};

TEST(Suggestion, IsATypingErrorOrTwoAway) {
  EXPECT_EQ(likely_name("stpes", names), "steps");
  EXPECT_EQ(likely_name("step", names), "steps");
  EXPECT_EQ(likely_name("acumulat", names), "accumulate");
  EXPECT_EQ(likely_name("checkpoint-evry", names), "checkpoint-every");
}

TEST(Suggestion, IsNotFarFetched) {
  EXPECT_EQ(likely_name("learning-rate", names), "");
  EXPECT_EQ(likely_name("epochs", names), "");
  EXPECT_EQ(likely_name("x", names), "");
  EXPECT_EQ(likely_name("qq", names), "");
  EXPECT_EQ(likely_name("", names), "");
}

TEST(Suggestion, CompletesABeginning) {
  EXPECT_EQ(likely_name("accu", names), "accumulate");
  EXPECT_EQ(likely_name("check", names), "checkpoint");  // the shortest
  EXPECT_EQ(likely_name("ac", names), "");
}

}  // namespace
}  // namespace binade
