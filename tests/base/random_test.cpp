#include "binade/base/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <thread>

namespace binade::random {
namespace {

using Words = std::array<uint32_t, 4>;

// Known answers of philox4x32-10, from the Random123 distribution (Salmon et al., 2011).
TEST(Random, PhiloxGivesThePublishedWords) {
  EXPECT_EQ(philox({0, 0, 0, 0}, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, 0xffffffffffffffff),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

static_assert(philox({0, 0, 0, 0}, 0)[0] == 0x6627e8d5, "draws are there at compile time");

TEST(Random, BitsAreTheWordsOfTheirBlock) {
  for (uint64_t i = 0; i < 64; ++i) EXPECT_EQ(bits(3, 5, i), block(3, 5, i / 4)[i % 4]);
}

TEST(Random, SeedStreamAndIndexAllMatter) {
  std::set<uint32_t> draws;
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32}) {
    for (const uint64_t stream : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32}) {
      for (const uint64_t index : {uint64_t{0}, uint64_t{1}, uint64_t{4}, uint64_t{1} << 34})
        draws.insert(bits(seed, stream, index));
    }
  }
  EXPECT_EQ(draws.size(), 3u * 3u * 4u);
}

// The mean of n draws of variance v is off by more than 5 sqrt(v / n) once in two million times;
// seeds are fixed.
TEST(Random, UniformHasTheMomentsOfItsName) {
  constexpr int n = 200'000;
  double sum = 0, squares = 0, cubes = 0;
  for (uint64_t i = 0; i < n; ++i) {
    const float x = uniform(11, 2, i);
    ASSERT_GE(x, 0);
    ASSERT_LT(x, 1);
    ASSERT_EQ(x * 0x1p24f, std::floor(x * 0x1p24f));
    sum += x;
    squares += static_cast<double>(x) * x;
    cubes += static_cast<double>(x) * x * x;
  }
  const auto tolerance = [](double variance) { return 5 * std::sqrt(variance / n); };
  EXPECT_NEAR(sum / n, 1.0 / 2, tolerance(1.0 / 12));
  EXPECT_NEAR(squares / n, 1.0 / 3, tolerance(1.0 / 5 - 1.0 / 9));
  EXPECT_NEAR(cubes / n, 1.0 / 4, tolerance(1.0 / 7 - 1.0 / 16));
}

TEST(Random, NormalHasTheMomentsOfItsName) {
  constexpr int n = 200'000;
  double moments[5] = {};
  int beyond_two = 0;
  for (uint64_t i = 0; i < n; ++i) {
    const double x = normal(11, 2, i);
    ASSERT_TRUE(std::isfinite(x));
    for (int k = 1; k <= 4; ++k) moments[k] += std::pow(x, k) / n;
    beyond_two += std::abs(x) > 2;
  }
  const auto tolerance = [](double variance) { return 5 * std::sqrt(variance / n); };
  EXPECT_NEAR(moments[1], 0, tolerance(1));
  EXPECT_NEAR(moments[2], 1, tolerance(2));
  EXPECT_NEAR(moments[3], 0, tolerance(15));
  EXPECT_NEAR(moments[4], 3, tolerance(96));
  const double p = std::erfc(std::sqrt(2.0));
  EXPECT_NEAR(static_cast<double>(beyond_two) / n, p, tolerance(p * (1 - p)));
}

// Box-Muller from draws 2 i and 2 i + 1, written out: other draws would change every model's
// initial weights, and draws that two numbers share would make them dependent.
TEST(Random, NormalTakesTwoDrawsOfItsOwn) {
  for (const uint64_t i : {uint64_t{0}, uint64_t{1}, uint64_t{2}, uint64_t{1000}}) {
    const double u = (bits(3, 4, 2 * i) + 0.5) / 4294967296.0,
                 v = (bits(3, 4, 2 * i + 1) + 0.5) / 4294967296.0;
    EXPECT_FLOAT_EQ(normal(3, 4, i), static_cast<float>(std::sqrt(-2 * std::log(u)) *
                                                        std::cos(6.283185307179586 * v)));
  }
}

TEST(Random, NeighborsAreNotCorrelated) {
  constexpr int n = 100'000;
  double along = 0, across = 0, over = 0;
  for (uint64_t i = 0; i < n; ++i) {
    along += static_cast<double>(normal(5, 0, i)) * normal(5, 0, i + 1) / n;
    across += static_cast<double>(normal(5, 0, i)) * normal(5, 1, i) / n;
    over += static_cast<double>(normal(5, 0, i)) * normal(6, 0, i) / n;
  }
  const double tolerance = 5 / std::sqrt(static_cast<double>(n));
  EXPECT_NEAR(along, 0, tolerance);
  EXPECT_NEAR(across, 0, tolerance);
  EXPECT_NEAR(over, 0, tolerance);
}

// Written out bit by bit: other values would change the bits of every training run.
TEST(RandomDomain, HasItsFixedBits) {
  EXPECT_EQ(stream_id(Domain::ops, 5), 5u);
  EXPECT_EQ(stream_id(Domain::data, 5), 0x4000000000000005u);
  EXPECT_EQ(stream_id(Domain::sampling, 0), 0x6000000000000000u);
  EXPECT_EQ(stream_id(Domain::optimizer, 5), 0x8000000000000005u);
  EXPECT_EQ(stream_id(Domain::parameters, 5), 0xC000000000000005u);
}

TEST(RandomContext, EachOpTakesTheNextStream) {
  begin_step(42, 7);
  const Key first = next_key(), second = next_key();
  EXPECT_EQ(first.seed, 42u);
  EXPECT_EQ(second.seed, 42u);
  EXPECT_NE(first.stream, second.stream);
  begin_step(42, 7);
  EXPECT_EQ(next_key().stream, first.stream) << "a step begun again draws the same";
  begin_step(42, 8);
  EXPECT_NE(next_key().stream, first.stream);
}

TEST(RandomContext, StepsDoNotShareStreams) {
  std::set<uint64_t> streams;
  for (uint64_t step = 0; step < 20; ++step) {
    begin_step(1, step);
    for (int op = 0; op < 20; ++op) streams.insert(next_key().stream);
  }
  EXPECT_EQ(streams.size(), 400u);
}

TEST(RandomContext, BelongsToItsThread) {
  begin_step(1, 2);
  next_key();
  uint64_t elsewhere = 99;
  std::thread([&] { elsewhere = context().seed + context().next_stream; }).join();
  EXPECT_EQ(elsewhere, 0u);
  EXPECT_EQ(context().next_stream, 1u);
}

}  // namespace
}  // namespace binade::random
