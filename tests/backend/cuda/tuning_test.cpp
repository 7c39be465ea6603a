#ifdef BINADE_CUDA

#include "binade/backend/cuda/tuning.h"

#include <gtest/gtest.h>

#include "binade/base/error.h"

namespace binade::backend::cuda {
namespace {

TEST(Tuning, HasThreeValuesAndRefusesOthers) {
  EXPECT_EQ(parse_tuning(nullptr), Tuning::brief);
  EXPECT_EQ(parse_tuning("1"), Tuning::brief);
  EXPECT_EQ(parse_tuning("0"), Tuning::off);
  EXPECT_EQ(parse_tuning("sustained"), Tuning::sustained);
  EXPECT_THROW(parse_tuning("long"), Error);
}

}  // namespace
}  // namespace binade::backend::cuda

#endif  // BINADE_CUDA
