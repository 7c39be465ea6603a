#include "binade/train/throughput.h"

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

}  // namespace
}  // namespace binade::train
