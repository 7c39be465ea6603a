#include "binade/ops/create/create.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "binade/backend/gpu.h"
#include "binade/ops/shape/shape.h"
#include "support/tensors.h"

namespace binade {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Create, ConstantsOfEveryType) {
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32,
                            DType::u8, DType::boolean}) {
    EXPECT_THAT(test::read(zeros({2, 3}, dtype)), Each(0)) << name(dtype);
    EXPECT_THAT(test::read(ones({2, 3}, dtype)), Each(1)) << name(dtype);
    EXPECT_EQ(ones({2, 3}, dtype).dtype(), dtype);
  }
  EXPECT_THAT(test::read(full({2}, -2.5, DType::bf16)), Each(-2.5));
  EXPECT_EQ(zeros({0, 3}).numel(), 0);
  EXPECT_EQ(describe(zeros({2}, DType::f16, Device::meta())), "[2] f16 meta");
  EXPECT_EQ(describe(zeros_like(zeros({2, 1}, DType::bf16))), "[2, 1] bf16 cpu");
}

TEST(Create, EqualDistances) {
  EXPECT_THAT(test::read(linspace(0, 1, 5)), ElementsAre(0, 0.25, 0.5, 0.75, 1));
  EXPECT_THAT(test::read(linspace(3, -3, 3, DType::f16)), ElementsAre(3, 0, -3));
  EXPECT_THAT(test::read(linspace(2, 7, 1)), ElementsAre(2));
  EXPECT_EQ(linspace(0, 1, 0).numel(), 0);
  // Both ends are exact, although 0.1 * 10 steps are not.
  const std::vector<double> tenths = test::read(linspace(0, 0.7, 8, DType::f64));
  EXPECT_EQ(tenths.front(), 0);
  EXPECT_EQ(tenths.back(), 0.7);
  EXPECT_THROW(linspace(0, 1, -1), Error);
  EXPECT_THROW(linspace(0, std::numeric_limits<double>::infinity(), 3), Error);
}

TEST(Create, Identity) {
  EXPECT_THAT(test::read(eye(2)), ElementsAre(1, 0, 0, 1));
  EXPECT_THAT(test::read(eye(2, 3, DType::i64)), ElementsAre(1, 0, 0, 0, 1, 0));
  EXPECT_THAT(test::read(eye(3, 1)), ElementsAre(1, 0, 0));
  EXPECT_EQ(eye(0).numel(), 0);
  EXPECT_THROW(eye(-1), Error);
}

TEST(Create, Counting) {
  EXPECT_THAT(test::read(arange(4)), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(arange(4).dtype(), DType::i64);
  EXPECT_EQ(describe(arange(3, DType::f32)), "[3] f32 cpu");
  EXPECT_EQ(arange(0).numel(), 0);
}

TEST(Create, FromValuesAndBack) {
  const Tensor x = tensor({1, 2, 3, 4, 5, 6}, {2, 3}, DType::bf16);
  EXPECT_EQ(describe(x), "[2, 3] bf16 cpu");
  EXPECT_THAT(to_vector(x), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(to_vector(transpose(x, 0, 1)), ElementsAre(1, 4, 2, 5, 3, 6));
  const int64_t wide[] = {int64_t{1} << 53, (int64_t{1} << 53) + 1};
  const Tensor whole = tensor(wide, {2});
  EXPECT_EQ(whole.data<int64_t>()[1], wide[1]) << "integers do not pass through a float";
  EXPECT_EQ(to_vector(tensor({1 + 0x1p-24 + 0x1p-40}, {1}, DType::f32))[0], 1 + 0x1p-23)
      << "rounded once";
}

TEST(Create, RandomNumbersAreAFunctionOfTheirKey) {
  const random::Key key{5, 6};
  EXPECT_TRUE(test::same_bits(randn({1000}, key), randn({1000}, key)));
  EXPECT_FALSE(test::same_bits(randn({1000}, key), randn({1000}, {5, 7})));
  // Element by element, whatever the shape and the number of threads.
  const Tensor flat = randn({100'000}, key);
  const ThreadCount threads(8);
  const Tensor matrix = randn({250, 400}, key);
  EXPECT_EQ(std::memcmp(flat.raw_data(), matrix.raw_data(), static_cast<size_t>(flat.bytes())), 0);
  for (const double x : test::read(rand({1000}, key))) ASSERT_TRUE(x >= 0 && x < 1);
}

TEST(Create, UniformNumbersStayBelowOneIn16Bits) {
  for (const auto& [dtype, largest] :
       {std::pair(DType::bf16, 1 - 0x1p-8), std::pair(DType::f16, 1 - 0x1p-11)}) {
    const auto values = test::read(rand({100'000}, {5, 6}, dtype));
    EXPECT_EQ(*std::max_element(values.begin(), values.end()), largest);
  }
}

TEST(Create, IntegersOfWideRanges) {
  const int64_t least = std::numeric_limits<int64_t>::min(),
                most = std::numeric_limits<int64_t>::max();
  const std::pair<int64_t, int64_t> ranges[] = {
      {0, int64_t{1} << 32}, {0, int64_t{1} << 33}, {-5, int64_t{1} << 40}, {least, most}};
  for (const auto& [low, high] : ranges) {
    const Tensor x = randint(low, high, {4000}, {3, 4});
    const double range = static_cast<double>(high) - static_cast<double>(low);
    int quarters[4] = {};
    for (int64_t i = 0; i < 4000; ++i) {
      const int64_t value = x.data<int64_t>()[i];
      ASSERT_TRUE(value >= low && value < high) << value;
      const double position = (static_cast<double>(value) - static_cast<double>(low)) / range;
      ++quarters[std::min(3, static_cast<int>(4 * position))];
    }
    for (const int count : quarters)
      EXPECT_NEAR(count, 1000, 5 * std::sqrt(4000 * 3.0 / 16)) << high;
  }
  // The low bits are drawn, too.
  const Tensor x = randint(least, most, {64}, {3, 4});
  uint64_t seen = 0;
  for (int64_t i = 0; i < 64; ++i) seen |= static_cast<uint64_t>(x.data<int64_t>()[i]);
  EXPECT_EQ(seen, ~uint64_t{0});
}

TEST(Create, RandomNumbersHaveTheirMoments) {
  constexpr double n = 100'000;
  double mean = 0, square = 0;
  for (const double x : test::read(randn({100'000}, {1, 2}))) mean += x / n, square += x * x / n;
  EXPECT_NEAR(mean, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(square, 1, 5 * std::sqrt(2 / n));
  int counts[3] = {};
  for (const double x : test::read(randint(-1, 2, {30'000}, {1, 2}))) {
    ++counts[static_cast<int>(x) + 1];
  }
  for (const int count : counts) EXPECT_NEAR(count, 10'000, 5 * std::sqrt(30'000.0 * 2 / 9));
}

TEST(Create, OnAGpuSaysThatTheBuildHasNone) {
  if (backend::built_with_cuda()) GTEST_SKIP() << "a build with CUDA";
  EXPECT_THAT(test::error_of([] { ones({2}, DType::f32, Device::cuda()); }),
              HasSubstr("device: expected cpu or meta, found cuda:0; this build has no CUDA"));
  EXPECT_THAT(test::error_of([] {
                full({2, 3}, 1.5, DType::bf16, Device::cuda(3));
              }),
              HasSubstr("found cuda:3"));
}

TEST(Item, ReadsOneElement) {
  EXPECT_EQ(tensor({2.5}, {1, 1}, DType::bf16).item(), 2.5);
  EXPECT_EQ(select(arange(5), 0, 3).item(), 3);
  EXPECT_EQ(ones({}, DType::boolean).item(), 1);
  EXPECT_THAT(test::error_of([] { zeros({2}).item(); }),
              HasSubstr("item: tensor: expected one element, found [2] f32 cpu"));
  EXPECT_NE(test::error_of([] { Tensor().item(); }), "");
}

}  // namespace
}  // namespace binade
