#include "binade/ranks/resent_pieces.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "ranks/mpirun.h"
#include "support/rank_variables.h"

namespace binade::ranks {
namespace {

struct Counts {
  long long flips = -1, found = -1, others = -1, pieces = -1;
};

Counts counts_of(const cli::Outcome& outcome) {
  Counts counts;
  EXPECT_EQ(std::sscanf(outcome.out.c_str(), "%lld %lld %lld %lld", &counts.flips, &counts.found,
                        &counts.others, &counts.pieces),
            4)
      << outcome.out << outcome.err;
  return counts;
}

std::string scenario(double share, bool flips) {
  return "audit " + std::to_string(share) + (flips ? " 1" : " 0");
}

Counts over_tcp(int ranks, double share, bool flips) {
  return counts_of(
      cli::run_shell("export BINADE_THREADS=1; " +
                     test::on_ranks_by_variables(
                         ranks, std::string(BINADE_RANKS_PROGRAM) + " " + scenario(share, flips))));
}

TEST(ResentPiecesTcp, FindEachFlippedBitIfAllAreSentAgain) {
  for (const int ranks : {2, 3}) {
    const Counts counts = over_tcp(ranks, 1, true);
    EXPECT_GT(counts.flips, 150) << ranks;
    EXPECT_EQ(counts.found, counts.flips) << ranks;
    EXPECT_EQ(counts.others, 0) << ranks;
  }
}

TEST(ResentPiecesTcp, FindTheShareOfFlippedBitsThatIsSentAgain) {
  constexpr double share = 0.2;
  const Counts counts = over_tcp(3, share, true);
  const auto flips = static_cast<double>(counts.flips);
  EXPECT_GT(flips, 500);
  EXPECT_NEAR(static_cast<double>(counts.found) / flips, share,
              4 * std::sqrt(share * (1 - share) / flips));
  EXPECT_EQ(counts.others, 0);
}

TEST(ResentPiecesTcp, RaiseNoFalseAlarm) {
  const Counts counts = over_tcp(3, 1, false);
  EXPECT_GT(counts.pieces, 1000);
  EXPECT_EQ(counts.flips, 0);
  EXPECT_EQ(counts.others + counts.found, 0);
}

class ResentPiecesMpi : public MpiTest {};

TEST_F(ResentPiecesMpi, FindEachFlippedBitIfAllAreSentAgain) {
  const Counts counts = counts_of(on_ranks(2, scenario(1, true)));
  EXPECT_GT(counts.flips, 150);
  EXPECT_EQ(counts.found, counts.flips);
  EXPECT_EQ(counts.others, 0);
}

}  // namespace
}  // namespace binade::ranks
