#include "binade/nn/rope.h"

#include <gtest/gtest.h>

#include <cmath>

namespace binade::nn {
namespace {

TEST(RopeFrequencies, FallGeometrically) {
  const std::vector<float> plain = rope_frequencies(8, 10000);
  ASSERT_EQ(plain.size(), 4u);
  for (size_t i = 0; i < 4; ++i)
    EXPECT_FLOAT_EQ(plain[i], static_cast<float>(std::pow(10.0, -static_cast<double>(i))));
}

TEST(RopeFrequencies, LinearScalingDividesAll) {
  const std::vector<float> plain = rope_frequencies(16, 10000);
  const std::vector<float> scaled =
      rope_frequencies(16, 10000, {.kind = RopeScalingKind::linear, .factor = 8});
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_FLOAT_EQ(scaled[i], plain[i] / 8);
}

// Llama 3.1's settings; three frequencies as transformers computes them, on the ramp and past it.
TEST(RopeFrequencies, Llama3ScalesLongWavelengths) {
  const RopeScaling llama3{.kind = RopeScalingKind::llama3, .factor = 8};
  const std::vector<float> plain = rope_frequencies(128, 500000),
                           scaled = rope_frequencies(128, 500000, llama3);
  EXPECT_EQ(scaled[0], plain[0]);
  EXPECT_NEAR(scaled[29], 0.00216657, 5e-9);
  EXPECT_NEAR(scaled[30], 0.00137189, 5e-9);
  EXPECT_NEAR(scaled[35], 9.55621e-5, 5e-11);
  EXPECT_FLOAT_EQ(scaled[63], plain[63] / 8);
}

}  // namespace
}  // namespace binade::nn
