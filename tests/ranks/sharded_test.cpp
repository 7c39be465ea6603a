#include "binade/ranks/sharded.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "binade/amp/recipe/recipe.h"
#include "binade/base/error.h"
#include "binade/base/random.h"
#include "binade/formats/number.h"
#include "binade/optim/adam.h"
#include "ranks/mpirun.h"

// Fold, tally, Sharded and the parts of the optimizer, on one to five ranks.
namespace binade::ranks {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class ShardedMpi : public MpiTest {};

TEST_F(ShardedMpi, FoldAddsInTheOrderOfMicroBatches) {
  for (const int ranks : {1, 2, 3, 5})
    EXPECT_EQ(on_ranks(ranks, "fold").out, "0 wrong of 56391\n") << ranks;
  EXPECT_EQ(on_ranks(3, "fold16").out, "0 wrong of 56391\n");
}

TEST_F(ShardedMpi, TheLibrarysOwnOrderErrsByRoundingsAlone) {
  for (const int ranks : {1, 2, 3})
    EXPECT_EQ(on_ranks(ranks, "fold_any").out, "0 wrong of 56391\n") << ranks;
}

TEST_F(ShardedMpi, StepsHaveTheSameBitsOnAnyNumberOfRanks) {
  const std::string alone = on_ranks(1, "stage2").out;
  EXPECT_THAT(alone, HasSubstr(" 0 0x")) << "no step overflowed";
  EXPECT_THAT(alone, HasSubstr(" 1 0x")) << "no step was applied";
  for (const int ranks : {2, 3}) {
    EXPECT_EQ(on_ranks(ranks, "stage1").out, alone) << ranks;
    EXPECT_EQ(on_ranks(ranks, "stage2").out, alone) << ranks;
  }
}

// An infinite gradient that one rank meets: all skip the step, and the scale falls until none does.
TEST_F(ShardedMpi, InfinitiesUnderARecipeSkipTheStepOnAllRanks) {
  for (const amp::Recipe* recipe : amp::recipes::all()) {
    SCOPED_TRACE(recipe->name);
    const std::string alone = on_ranks(1, "infinite " + recipe->name).out;
    EXPECT_THAT(alone, StartsWith("false 8388608\nfalse 4194304\n"));
    EXPECT_THAT(alone, HasSubstr("true "));
    EXPECT_THAT(alone, Not(HasSubstr(" and "))) << "ranks differ";
    for (const int ranks : {2, 3})
      EXPECT_EQ(on_ranks(ranks, "infinite " + recipe->name).out, alone);
  }
}

// The smallest index of a bad parameter, and the signal of any rank: the first, the last or
// between.
TEST_F(ShardedMpi, EveryRanksWordCounts) {
  for (const char* from : {"0", "1", "2"})
    EXPECT_EQ(on_ranks(3, "agreement " + std::string(from)).out,
              "bad 4 stop 15 inf 1 losses 10 11 12 maxima 8 7 sum 6 most 5 seconds 6 waited 1.5\n")
        << from;
  EXPECT_EQ(on_ranks(2, "agreement 5").out,
            "bad 4 stop 0 inf 0 losses 10 11 maxima 8 7 sum 3 most 5 seconds 3 waited 0.75\n");
}

TEST_F(ShardedMpi, TheExamplesLossesDoNotDependOnTheRanks) {
  const auto alone = cli::run_shell("BINADE_THREADS=1 " BINADE_RANKS_EXAMPLE);
  EXPECT_EQ(alone.status, 0) << alone.out << alone.err;
  EXPECT_EQ(cli::run_shell("BINADE_THREADS=1 " + mpirun(2) + BINADE_RANKS_EXAMPLE).out, alone.out);
}

// Gradients that are rounded once and added in f32, against a sum that is kept in bf16, as when a
// library reduces bf16.
TEST(Fold, SixteenBitsOnTheWireLoseLessThanSixteenBitSums) {
  constexpr uint64_t ranks = 64, elements = 2000;
  double wire_error = 0, chain_error = 0;
  for (uint64_t i = 0; i < elements; ++i) {
    double exact = 0;
    float wire = 0;
    bf16 chain(0.0f);
    for (uint64_t rank = 0; rank < ranks; ++rank) {
      const float leaf = random::normal(5, rank, i) + 0.5f;
      exact += leaf;
      wire += static_cast<float>(bf16(leaf));
      chain = bf16(static_cast<float>(chain) + static_cast<float>(bf16(leaf)));
    }
    wire_error += (wire - exact) * (wire - exact);
    chain_error += (static_cast<float>(chain) - exact) * (static_cast<float>(chain) - exact);
  }
  EXPECT_GE(std::sqrt(chain_error), 5 * std::sqrt(wire_error));
}

TEST(Sharded, RefusesFewerMicroBatchesThanRanks) {
  nn::Module model;
  Tensor weight = Tensor::empty({4}, DType::f32);
  weight.set_requires_grad();
  const Partition partition(std::vector<Tensor>{weight}, 1);
  optim::AdamW optimizer({weight}, {.master = {.parts = partition.parts(0)}});
  EXPECT_THROW(Sharded(model, optimizer, single(), partition, {.micro_batches = 0}), Error);
  EXPECT_THROW(Sharded(model, optimizer, single(), partition, {.stage = 4}), Error);
}

}  // namespace
}  // namespace binade::ranks
