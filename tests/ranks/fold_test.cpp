#include "binade/ranks/fold.h"

#include <gtest/gtest.h>

#include "binade/base/error.h"
#include "binade/formats/number.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/index/index.h"
#include "binade/ops/matmul/matmul.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/optim/sgd.h"
#include "binade/ranks/sharded.h"
#include "support/tensors.h"

// The sums of a rank alone; sharded_test.cpp has those of many.
namespace binade::ranks {
namespace {

constexpr int64_t micros = 4;

// Sums gradients of these parameters on one rank.
struct Alone {
  Alone(std::vector<Tensor> parameters, int64_t micro_batches, DType wire)
      : optimizer(parameters, {.lr = 1}),
        sharded(model, optimizer, single(), Partition(parameters, 1),
                {.micro_batches = micro_batches, .reduce_dtype = wire}) {}

  nn::Module model;
  optim::SGD optimizer;
  Sharded sharded;
};

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

TEST(FoldAlone, IsThatOfGradientsComputedAlone) {
  for (const DType wire : {DType::f32, DType::bf16}) {
    const Tensor a = test::noise_leaf({6, 5}, 100), b = test::noise_leaf({5, 9}, 101);
    Alone sums({a, b}, micros, wire);
    for (int repeat = 0; repeat < 2; ++repeat) {
      a.zero_grad();
      b.zero_grad();
      sums.sharded.accumulate([&](int64_t micro) { backward(a, b, micro); });
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
        sums.sharded.accumulate([&](int64_t micro) { backward(a, b, micro); });
      }
    }
  }
}

// All but the gradients in use are released: a second set exists one gradient at a time.
TEST(FoldAlone, KeepsOneSetOfGradients) {
  const Tensor a = test::noise_leaf({64, 64}, 100), b = test::noise_leaf({64, 64}, 101);
  Alone sums({a, b}, 3, DType::f32);
  const int64_t before = memory::allocated(memory::Category::gradients);
  sums.sharded.accumulate([&](int64_t micro) {
    const Tensor x = test::noise({2, 64}, static_cast<uint64_t>(micro));
    sum(matmul(matmul(x, a), b)).backward();
    EXPECT_EQ(memory::allocated(memory::Category::gradients) - before, 2 * 64 * 64 * 4);
  });
  EXPECT_EQ(memory::allocated(memory::Category::gradients) - before, 2 * 64 * 64 * 4);
}

TEST(FoldAlone, LeavesOtherBackwardsAlone) {
  const Tensor a = test::noise_leaf({2}, 1);
  const Alone sums({a}, 2, DType::f32);
  sum(a * 2.0).backward();
  sum(a * 3.0).backward();
  EXPECT_EQ(test::read(a.grad()), (std::vector<double>{5, 5}));
}

// A parameter that only some micro-batches use has the sum of these, and one that none uses stays
// without a gradient.
TEST(FoldAlone, SumsWhatThereIs) {
  const Tensor a = test::noise_leaf({2}, 1), b = test::noise_leaf({2}, 2),
               unused = test::noise_leaf({2}, 3);
  Alone sums({a, b, unused}, 4, DType::f32);
  for (int repeat = 0; repeat < 2; ++repeat) {
    sums.optimizer.zero_grad();
    sums.sharded.accumulate([&](int64_t micro) {
      sum((micro % 2 == 0 ? a : b) * static_cast<double>(1 + micro)).backward();
    });
    EXPECT_EQ(test::read(a.grad()), (std::vector<double>{4, 4}));
    EXPECT_EQ(test::read(b.grad()), (std::vector<double>{6, 6}));
    EXPECT_FALSE(unused.grad().defined());
  }
}

// Nothing of a backward that failed is in the next sum.
TEST(FoldAlone, BeginsAnewAfterAFailure) {
  const Tensor a = test::noise_leaf({2}, 1);
  Alone sums({a}, 3, DType::f32);
  const auto backward_but = [&](int64_t failing) {
    a.zero_grad();
    sums.sharded.accumulate([&](int64_t micro) {
      if (micro == failing) fail("backward", {});
      sum(a * 2.0).backward();
    });
  };
  EXPECT_THROW(backward_but(2), Error);
  backward_but(-1);
  EXPECT_EQ(test::read(a.grad()), (std::vector<double>{6, 6}));
}

}  // namespace
}  // namespace binade::ranks
