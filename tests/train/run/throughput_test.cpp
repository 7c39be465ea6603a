#include "binade/train/run/throughput.h"

#include <gtest/gtest.h>

#include "binade/train/machine.h"
#include "train/small_run.h"

namespace binade::train {
namespace {

// GPT-2 124M: 6 x 123,532,032 weights in matmuls + 6 x 12 x 768 x 1024.
TEST(Throughput, CountsTheOperationsOfAToken) {
  const Config config = resolve({.file = {}, .options = {{"preset", "gpt2-124m"}}});
  EXPECT_EQ(flops_per_token(model_config(config)), 6.0 * 123'532'032 + 6.0 * 12 * 768 * 1024);
  // Llama: a third matrix in the MLP, no tied head.
  const Config llama = resolve({.file = {},
                                .options = {{"model", "llama"},
                                            {"width", "8"},
                                            {"heads", "4"},
                                            {"kv-heads", "2"},
                                            {"hidden", "16"},
                                            {"layers", "1"},
                                            {"context", "4"}}});
  EXPECT_EQ(flops_per_token(model_config(llama)),
            6.0 * (8 * 8 + 2 * 8 * 4 + 8 * 8 + 3 * 8 * 16 + 256 * 8) + 6.0 * 8 * 4);
}

TEST(Throughput, FullSpeedIsAllOperationsAtTheMatmulRate) {
  const Config config = small_config();
  EXPECT_EQ(full_speed(config),
            matmul_rate(Device::cpu(), Precision::fp32) / flops_per_token(model_config(config)));
}

TEST(Throughput, TheWindowForgetsOldSteps) {
  SpeedWindow speed(1);
  EXPECT_TRUE(speed.empty());
  speed.add(100, 10);  // a slow first step
  EXPECT_DOUBLE_EQ(speed.tokens_per_second(), 10);
  speed.add(100, 0.5);
  EXPECT_DOUBLE_EQ(speed.tokens_per_second(), 200 / 10.5);
  speed.add(100, 0.5);  // the last two fill the window
  EXPECT_DOUBLE_EQ(speed.tokens_per_second(), 200);
  for (int i = 0; i < 7; ++i) speed.add(100, 0.25);
  EXPECT_DOUBLE_EQ(speed.tokens_per_second(), 400);
}

// Three results at a time after three steps' time: no spike of three times the speed.
TEST(Throughput, TheWindowEvensOutResultsThatArriveTogether) {
  SpeedWindow speed(1);
  for (int i = 0; i < 60; ++i) {
    speed.add(100, i % 3 == 0 ? 0.3 : 0.0);
    if (i > 30) {
      EXPECT_NEAR(speed.tokens_per_second(), 1000, 250) << i;
    }
  }
}

}  // namespace
}  // namespace binade::train
