#include <gtest/gtest.h>

#include <cmath>

#include "backend/cuda/matmul/near_cpu.h"
#include "binade/backend/backend.h"
#include "binade/backend/transfer.h"

// A linear layer's cross entropy within the matmul, on a GPU, against the definition in double. The
// sizes are not whole tiles.
namespace binade::backend::cuda_fused_cross_entropy_test {
namespace {

constexpr int64_t rows = 5500, width = 192, classes = 1283, padded = 1288, ignore_index = -100;

// Logits are multiples of 1/8 and at most 8, which bf16 holds exactly: x has four ones to a row.
// Two rows of x also reach a column that gives one class a logit far above the others.
struct Operands {
  Values x = Values(rows * width), weight = Values(padded * width), target = Values(rows);

  Operands() {
    const auto random = [](uint64_t stream, size_t i, int64_t values) {
      return std::floor(random::uniform(1, stream, i) * static_cast<double>(values));
    };
    for (size_t row = 0; row < rows; ++row) {
      for (size_t i = 0; i < 4; ++i)
        x[row * width + 1 + i * 40 + static_cast<size_t>(random(1, row * 4 + i, 40))] = 1;
      target[row] = row % 7 == 3 ? ignore_index : random(2, row, classes);
    }
    for (size_t i = 0; i < classes * width; ++i)
      if (i % width != 0) weight[i] = (random(3, i, 33) - 16) / 8;
    weight[5 * width] = 64;
    for (const auto& [row, size] : {std::pair(200, 0.75), std::pair(4000, 2.0)}) {
      x[static_cast<size_t>(row) * width] = size;  // 48, within range, or 128
      target[static_cast<size_t>(row)] = 9;
    }
  }

  double logit(size_t row, size_t column) const {
    double sum = 0;
    for (size_t i = 0; i < width; ++i) sum += x[row * width + i] * weight[column * width + i];
    return static_cast<float>(static_cast<bf16>(static_cast<float>(sum)));
  }
};

struct Found {
  Tensor gradients, losses, factors;
};

class FusedCrossEntropyGpu : public MatmulGpuTest {
 protected:
  Found run() const {
    const Tensor x = transfer(make({rows, width}, DType::bf16, operands_.x), gpu_),
                 weight = transfer(make({padded, width}, DType::bf16, operands_.weight), gpu_),
                 target = transfer(make({rows}, DType::i64, operands_.target), gpu_);
    const Tensor logits = transfer(filled({rows, padded}, DType::bf16, NAN), gpu_),
                 losses = transfer(filled({rows}, DType::f32, NAN), gpu_),
                 factors = transfer(filled({rows}, DType::f32, NAN), gpu_);
    const LinearCrossEntropy args{
        .x = x,
        .weight = weight,
        .loss = {.logits = logits.strided({rows, classes}, {padded, 1}, 0),
                 .target = target,
                 .ignore_index = ignore_index,
                 .losses = losses},
        .factors = factors};
    supported_ = fuses_cross_entropy(args, gpu_);
    if (!supported_) return {};
    of(gpu_).matmul.matmul_cross_entropy(args);
    const auto here = [](const Tensor& on_gpu) { return transfer(on_gpu, Device::cpu()); };
    return {here(logits), here(losses), here(factors)};
  }

  Operands operands_;
  Device gpu_ = Device::cuda();
  mutable bool supported_ = false;
};

#define SKIP_UNLESS_SUPPORTED() \
  if (!supported_) GTEST_SKIP() << "the GPU has no such kernel"

TEST_F(FusedCrossEntropyGpu, EqualsItsDefinition) {
  const Found found = run();
  SKIP_UNLESS_SUPPORTED();
  const Values gradients = read(found.gradients), losses = read(found.losses),
               factors = read(found.factors);
  for (size_t row = 0; row < rows; row += 50) {  // both rows with a large logit, too
    const bool counts = operands_.target[row] != ignore_index;
    Values logits(classes);
    double sum = 0, largest = 0;
    for (size_t i = 0; i < classes; ++i) {
      logits[i] = operands_.logit(row, i);
      largest = std::max(largest, logits[i]);
    }
    for (const double logit : logits) sum += std::exp(logit - largest);
    const auto label = static_cast<size_t>(counts ? operands_.target[row] : 0);
    const double loss = counts ? largest + std::log(sum) - logits[label] : 0;
    EXPECT_NEAR(losses[row], loss, 4e-6 + 0x1p-20 * loss) << "row " << row;
    for (size_t i = 0; i < padded; ++i) {
      double expected = 0;
      if (counts && i < classes)
        expected = std::exp(logits[i] - largest) / sum - (i == label ? 1 : 0);
      // One rounding to bf16; sums and exponentials of f32.
      const double found_value = gradients[row * padded + i] * factors[row];
      ASSERT_NEAR(found_value, expected, (0x1p-8 + 0x1p-15) * std::abs(expected) + 1e-30)
          << "row " << row << ", column " << i;
    }
  }
}

// Rows with a loss above 76 are complete: relative to the label their exponentials would overflow.
TEST_F(FusedCrossEntropyGpu, LargeLossesAreComputedAgain) {
  const Found found = run();
  SKIP_UNLESS_SUPPORTED();
  const Values factors = read(found.factors);
  EXPECT_EQ(factors[4000], 1);
  EXPECT_LT(factors[200], 1e-6);
  EXPECT_GT(factors[200], 0);
}

TEST_F(FusedCrossEntropyGpu, ALabelThatIsNoClassGivesNan) {
  operands_.target[10] = classes;
  operands_.target[11] = -1;
  const Found found = run();
  SKIP_UNLESS_SUPPORTED();
  const Values losses = read(found.losses);
  EXPECT_TRUE(std::isnan(losses[10]));
  EXPECT_TRUE(std::isnan(losses[11]));
  EXPECT_TRUE(std::isfinite(losses[12]));
}

TEST_F(FusedCrossEntropyGpu, GivesTheSameBitsEveryTime) {
  const Found first = run();
  SKIP_UNLESS_SUPPORTED();
  for (int i = 0; i < 3; ++i) {
    const Found again = run();
    expect_same_bits(again.gradients, first.gradients, "gradients");
    expect_same_bits(again.losses, first.losses, "losses");
    expect_same_bits(again.factors, first.factors, "factors");
  }
}

}  // namespace
}  // namespace binade::backend::cuda_fused_cross_entropy_test
