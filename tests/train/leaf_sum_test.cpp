#include "binade/train/leaf_sum.h"

#include <gtest/gtest.h>

#include "binade/formats/number.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/index/index.h"
#include "binade/ops/matmul/matmul.h"
#include "binade/ops/reduce/reduce.h"
#include "support/tensors.h"

namespace binade::train {
namespace {

constexpr int64_t micros = 4;

// Uses both parameters twice, so that a backward adds several terms to each gradient.
void backward(const Tensor& a, const Tensor& b, int64_t micro) {
  const auto seed = static_cast<uint64_t>(10 * micro);
  const Tensor x = test::noise({7, 6}, seed + 1);
  const Tensor y = matmul(matmul(x, a), b) + matmul(x, matmul(a, b));
  sum(y * test::noise(y.shape(), seed + 2)).backward();
}

std::vector<double> gradient_alone(const Tensor& a, const Tensor& b, const Tensor& of,
                                   int64_t micro) {
  a.zero_grad();
  b.zero_grad();
  backward(a, b, micro);
  return test::read(of.grad());
}

TEST(LeafSum, IsThatOfGradientsComputedAlone) {
  for (const DType wire : {DType::f32, DType::bf16}) {
    const Tensor a = test::noise_leaf({6, 5}, 100), b = test::noise_leaf({5, 9}, 101);
    LeafSum sums({a, b}, wire);
    for (int repeat = 0; repeat < 2; ++repeat) {
      a.zero_grad();
      b.zero_grad();
      sums.run(micros, [&](int64_t micro) { backward(a, b, micro); });
      for (const Tensor& one : {a, b}) {
        const std::vector<double> found = test::read(one.grad());
        std::vector<float> expected(found.size());
        for (int64_t micro = 0; micro < micros; ++micro) {
          const std::vector<double> leaf = gradient_alone(a, b, one, micro);
          for (size_t i = 0; i < leaf.size(); ++i) {
            const auto exact = static_cast<float>(leaf[i]);
            const float term = wire == DType::f32 ? exact : static_cast<float>(bf16(exact));
            expected[i] = micro == 0 ? term : expected[i] + term;
          }
        }
        for (size_t i = 0; i < found.size(); ++i)
          EXPECT_EQ(static_cast<float>(found[i]), expected[i]) << i;
        // As before the other parameter's loop.
        a.zero_grad();
        b.zero_grad();
        sums.run(micros, [&](int64_t micro) { backward(a, b, micro); });
      }
    }
  }
}

// All but the gradients in use are released: a second set exists one gradient at a time.
TEST(LeafSum, KeepsOneSetOfGradients) {
  const Tensor a = test::noise_leaf({64, 64}, 100), b = test::noise_leaf({64, 64}, 101);
  LeafSum sums({a, b}, DType::f32);
  const int64_t before = memory::allocated(memory::Category::gradients);
  sums.run(3, [&](int64_t micro) {
    const Tensor x = test::noise({2, 64}, static_cast<uint64_t>(micro));
    sum(matmul(matmul(x, a), b)).backward();
    EXPECT_EQ(memory::allocated(memory::Category::gradients) - before, 2 * 64 * 64 * 4);
  });
  EXPECT_EQ(memory::allocated(memory::Category::gradients) - before, 2 * 64 * 64 * 4);
}

TEST(LeafSum, LeavesOtherBackwardsAlone) {
  const Tensor a = test::noise_leaf({2}, 1);
  const LeafSum sums({a}, DType::f32);
  sum(a * 2.0).backward();
  sum(a * 3.0).backward();
  EXPECT_EQ(test::read(a.grad()), (std::vector<double>{5, 5}));
}

}  // namespace
}  // namespace binade::train
