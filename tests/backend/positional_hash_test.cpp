#include "binade/backend/positional_hash.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <numeric>
#include <vector>

#include "binade/base/parallel.h"

namespace binade::backend::positional_hash_test {
namespace {

uint64_t hash(const Tensor& x, uint64_t key, int64_t begin = 0) {
  const Tensor sum = Tensor::empty({1}, DType::i64);
  *sum.mutable_data<int64_t>() = 1;  // what is there is added to
  hash_kernels(x.device()).add(x, key, begin, sum);
  return std::bit_cast<uint64_t>(*sum.data<int64_t>()) - 1;
}

template <class Bits>
Tensor tensor_of(DType dtype, const std::vector<Bits>& bits) {
  const Tensor x = Tensor::empty({std::ssize(bits)}, dtype);
  std::memcpy(x.raw_data(), bits.data(), bits.size() * sizeof(Bits));
  return x;
}

Tensor counting(int64_t count) {
  std::vector<uint32_t> bits(static_cast<size_t>(count));
  std::iota(bits.begin(), bits.end(), 0x3f800000u);
  return tensor_of(DType::f32, bits);
}

// Expected values were computed from the definition in Python, with integers of any size.
TEST(PositionalHash, IsTheSumOfTheDefinition) {
  // 0, -0, 1.5, a NaN with a payload, -3e38
  EXPECT_EQ(hash(tensor_of<uint32_t>(DType::f32, {0, 0x80000000, 0x3fc00000, 0x7fc00001,
                                                  std::bit_cast<uint32_t>(-3e38f)}),
                 7, 3),
            0x49cb65cc69348fbeu);
  EXPECT_EQ(hash(tensor_of<uint8_t>(DType::u8, {0, 1, 255}), 7), 0x1ae15a1bd14b8ddu);
  EXPECT_EQ(hash(tensor_of<uint64_t>(DType::i64, {~uint64_t{0}, 5}), 7), 0xade550004b988457u);
  EXPECT_EQ(hash(tensor_of<uint16_t>(DType::bf16, {0x3f80, 0xffff, 0x0001}), ~uint64_t{0},
                 int64_t{1} << 40),
            0xc2528a7ecb36c0cbu);
}

TEST(PositionalHash, PartsAddUpToTheWhole) {
  const Tensor x = counting(100001);
  const uint64_t whole = hash(x, 5);
  for (const int64_t cut : {1, 16384, 33333, 100000}) {
    const Tensor first = x.strided({cut}, {1}, 0), rest = x.strided({100001 - cut}, {1}, cut);
    EXPECT_EQ(hash(first, 5) + hash(rest, 5, cut), whole) << cut;
    EXPECT_NE(hash(first, 5) + hash(rest, 5), whole) << cut;
  }
}

TEST(PositionalHash, DoesNotDependOnThreads) {
  const Tensor x = counting(300000);
  const uint64_t expected = hash(x, 5);
  const SerialScope serial;
  EXPECT_EQ(hash(x, 5), expected);
}

// Changes that an exclusive or, a plain sum or one without positions does not see.
TEST(PositionalHash, SeesSwapsAndPairsOfChanges) {
  const std::vector<uint32_t> bits = {10, 20, 30, 40};
  const uint64_t expected = hash(tensor_of(DType::f32, bits), 5);
  const std::vector<std::vector<uint32_t>> changed = {
      {20, 10, 30, 40}, {11, 19, 30, 40}, {10, 21, 31, 40}, {41, 9, 30, 40}, {10, 20, 30, 41}};
  for (const auto& other : changed) EXPECT_NE(hash(tensor_of(DType::f32, other), 5), expected);
  EXPECT_NE(hash(tensor_of(DType::f32, bits), 6), expected);
}

}  // namespace
}  // namespace binade::backend::positional_hash_test
