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

TEST(Suggestion, OfAChoiceKnowsOtherNamesAndCases) {
  EXPECT_EQ(likely_choice("FP16", {"fp32", "fp16"}), "fp16");
  EXPECT_EQ(likely_choice("fp16", {"f32", "bf16", "f16"}), "f16");
  EXPECT_EQ(likely_choice("f16", {"fp32", "bf16", "fp16"}), "fp16");
  EXPECT_EQ(likely_choice("half", {"f32", "f16"}), "f16");
  EXPECT_EQ(likely_choice("gpu", {"cpu", "cuda"}), "cuda");
  EXPECT_EQ(likely_choice("gpu", {"one", "two"}), "");
  EXPECT_EQ(likely_choice("layers", {"layer", "matmul"}), "layer");
}

TEST(Suggestion, CompletesABeginning) {
  EXPECT_EQ(likely_name("accu", names), "accumulate");
  EXPECT_EQ(likely_name("check", names), "checkpoint");  // the shortest
  EXPECT_EQ(likely_name("ac", names), "");
}

}  // namespace
}  // namespace binade
