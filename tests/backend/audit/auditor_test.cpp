#include "binade/backend/audit/auditor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "backend/audit/audited.h"
#include "binade/backend/backend.h"
#include "binade/backend/update_rules.h"
#include "binade/base/error.h"
#include "binade/base/random.h"

namespace binade::backend::auditor_test {
namespace {

using audit_test::Audited;
using audit_test::noise;

template <class Work>
Audited audit(AuditOptions options, int64_t step, Work work) {
  return audit_test::audit_step(Device::cpu(), std::move(options), step, work);
}

const Backend& kernels() { return of(Device::cpu()); }

void flip(const AuditedResult& result, int64_t element, int bit) {
  auto* const bytes =
      result.view.as<uint8_t>() + element * static_cast<int64_t>(size_of(result.view.dtype));
  bytes[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
}

TEST(Auditor, MatmulsOfAnyShapeAndTypeAreEqualToTheirTiles) {
  struct Sizes {
    int64_t batch, m, n, k;
  };
  const Audited all = audit({.share = 1}, 1, [] {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::e4m3, DType::f64}) {
      for (const auto& [batch, m, n, k] : {Sizes{1, 1, 130, 33},
                                           {1, 65, 1, 700},
                                           {2, 64, 129, 48},
                                           {3, 5, 7, 9},
                                           {1, 200, 66, 1100}}) {
        if (dtype == DType::f64 && k > 700) continue;
        const Tensor a = noise({batch, m, k}, dtype, 1), b = noise({batch, n, k}, dtype, 2);
        const DType result = dtype == DType::e4m3 ? DType::bf16 : dtype;
        const Tensor y = noise({batch, m, n}, result, 3), pre = noise({batch, m, n}, result, 4);
        const Tensor bias = noise({n}, result, 5);
        kernels().matmul.matmul(a, transposed(b), y, {});
        kernels().matmul.matmul(a, transposed(b), y, {.alpha = 0.5f, .beta = 1});
        kernels().matmul.matmul(
            a, transposed(b), y,
            {.bias = bias, .activation = Activation::gelu, .pre_activation = pre});
      }
    }
  });
  EXPECT_TRUE(all.found.empty());
  EXPECT_EQ(all.counts.audited, all.counts.pieces);
  EXPECT_EQ(all.counts.kernels, 3 * 24);
}

TEST(Auditor, NormsAndTheirGradientsAreEqualToTheirRows) {
  const Audited all = audit({.share = 1}, 1, [] {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const NormKind kind : {NormKind::layer, NormKind::rms}) {
        const int64_t rows = 37, width = 70;
        const Tensor x = noise({rows, width}, dtype, 1), other = noise({rows, width}, dtype, 2);
        const Tensor weight = noise({width}, DType::f32, 3), dy = noise({rows, width}, dtype, 4);
        const Tensor sum = Tensor::empty_like(x), y = Tensor::empty_like(x);
        const Tensor mean = kind == NormKind::layer ? noise({rows}, DType::f32, 5) : Tensor();
        const Tensor rstd = Tensor::empty({rows}, DType::f32);
        kernels().norm.forward({.kind = kind,
                                .x = x,
                                .residual = other,
                                .weight = weight,
                                .eps = 1e-5,
                                .sum = sum,
                                .y = y,
                                .mean = mean,
                                .rstd = rstd});
        const Tensor dx = noise({rows, width}, dtype, 6), dweight = noise({width}, DType::f32, 7);
        for (const bool accumulates : {false, true})
          kernels().norm.backward({.kind = kind,
                                   .dy = dy,
                                   .dsum = other,
                                   .x = sum,
                                   .weight = weight,
                                   .mean = mean,
                                   .rstd = rstd,
                                   .dx = {dx, accumulates},
                                   .dweight = {dweight, true}});
        // The gradient takes the place of what it is computed from.
        kernels().norm.backward({.kind = kind,
                                 .dy = dy,
                                 .dsum = other,
                                 .x = sum,
                                 .weight = weight,
                                 .mean = mean,
                                 .rstd = rstd,
                                 .dx = {other, false}});
      }
    }
  });
  EXPECT_TRUE(all.found.empty()) << all.found[0].kernel << " " << all.found[0].tensor;
  EXPECT_EQ(all.counts.kernels, 16);
  EXPECT_EQ(all.counts.audited, 16 * 3);  // 37 rows: 16, 16 and the last 16
}

TEST(Auditor, UpdatesAreEqualToTheirChunks) {
  const Audited all = audit({.share = 1}, 1, [] {
    const Tensor gradient = noise({5000}, DType::f32, 1), small = noise({3, 7}, DType::f32, 2);
    const Tensor w1 = noise({5000}, DType::f32, 3), w2 = noise({3, 7}, DType::f32, 4);
    const Tensor m1 = noise({5000}, DType::f32, 5), m2 = noise({3, 7}, DType::f32, 6);
    const Tensor v1 = noise({5000}, DType::f32, 7), v2 = noise({3, 7}, DType::f32, 8);
    const Tensor low = Tensor::empty({5000}, DType::bf16);
    for (const Tensor& v : {v1, v2}) kernels().elementwise.unary(Unary::abs, {}, v, v);
    const std::vector<UpdateItem> items = {
        {.master = w1, .gradient = gradient, .first = m1, .second = v1, .copy = low},
        {.master = w2, .gradient = small, .first = m2, .second = v2}};
    kernels().optimizer.update(items,
                               AdamParams{.lr = 1e-3,
                                          .beta1 = 0.9,
                                          .beta2 = 0.99,
                                          .eps = 1e-8,
                                          .weight_decay = 0.1,
                                          .correction1 = 0.5,
                                          .correction2 = 0.3},
                               {});
    kernels().optimizer.update(items, LionParams{.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.99}, {});
  });
  EXPECT_TRUE(all.found.empty());
  EXPECT_EQ(all.counts.audited, 2 * 4);  // 3 chunks and 1
}

TEST(Auditor, AMismatchSaysWhereAndWhat) {
  const Tensor a = noise({2, 100, 20}, DType::bf16, 1), b = noise({2, 20, 90}, DType::bf16, 2);
  const Tensor y = Tensor::empty({2, 100, 90}, DType::bf16);
  const int64_t element = (1 * 100 + 70) * 90 + 80;
  double right = 0;
  const auto inject = [&](const AuditedResult& result) {
    if (result.op != 1) return;
    right = static_cast<float>(y.data<bf16>()[element]);
    flip(result, element, 14);
  };
  const Audited one = audit({.share = 1, .inject = inject}, 4, [&] {
    for (int i = 0; i < 3; ++i) kernels().matmul.matmul(a, b, y, {});
  });
  ASSERT_FALSE(one.found.empty());  // tiles overlap at the end of an axis
  for (const AuditMismatch& mismatch : one.found) {
    EXPECT_EQ(mismatch.kernel, "matmul");
    EXPECT_EQ(mismatch.tensor, "y");
    EXPECT_EQ(mismatch.op, 1);
    EXPECT_EQ(mismatch.index, element);
    EXPECT_EQ(mismatch.different, 1);
    EXPECT_EQ(mismatch.expected, right);
    EXPECT_EQ(mismatch.found_bits ^ mismatch.expected_bits, uint64_t{1} << 14);
  }
}

// One flipped bit per step: the share of them that is found is that of the pieces.
double found_share(double share, int trials) {
  const Tensor a = noise({1, 256, 8}, DType::f32, 1), b = noise({1, 8, 320}, DType::f32, 2);
  const Tensor y = Tensor::empty({1, 256, 320}, DType::f32);
  int found = 0;
  for (int step = 1; step <= trials; ++step) {
    const auto draw = random::block(9, 1, static_cast<uint64_t>(step));
    const auto inject = [&](const AuditedResult& result) {
      flip(result, draw[0] % (256 * 320), static_cast<int>(draw[1] % 32));
    };
    const Audited one = audit({.share = share, .seed = 5, .inject = inject}, step,
                              [&] { kernels().matmul.matmul(a, b, y, {}); });
    found += one.found.empty() ? 0 : 1;
  }
  return static_cast<double>(found) / trials;
}

TEST(Auditor, FindsTheShareOfFaultsThatItsPiecesAre) {
  EXPECT_EQ(found_share(1, 100), 1);
  constexpr int trials = 600;
  for (const double share : {0.05, 0.3})
    EXPECT_NEAR(found_share(share, trials), share, 3.5 * std::sqrt(share * (1 - share) / trials));
}

// Of n wrong units an audit of share s finds one with probability 1 - (1 - s)^n.
TEST(Auditor, FindsAFaultThatStays) {
  const Tensor a = noise({1, 64, 8}, DType::f32, 1), b = noise({1, 8, 64}, DType::f32, 2);
  const Tensor y = Tensor::empty({1, 64, 64}, DType::f32);
  const double share = 0.1;
  constexpr int kernels_of_run = 10, runs = 300;
  int found = 0;
  for (int run = 0; run < runs; ++run) {
    const auto inject = [](const AuditedResult& result) { flip(result, 7, 3); };
    const Audited one = audit({.share = share, .seed = 8, .inject = inject}, run, [&] {
      for (int i = 0; i < kernels_of_run; ++i) kernels().matmul.matmul(a, b, y, {});
    });
    found += one.found.empty() ? 0 : 1;
  }
  const double expected = 1 - std::pow(1 - share, kernels_of_run);
  EXPECT_NEAR(static_cast<double>(found) / runs, expected,
              3.5 * std::sqrt(expected * (1 - expected) / runs));
}

TEST(Auditor, ChoosesBySeedRankStepAndKernel) {
  const auto audited_ops = [](uint64_t seed, int rank, int64_t step) {
    const Tensor a = noise({1, 64, 8}, DType::f32, 1), b = noise({1, 8, 64}, DType::f32, 2);
    const Tensor y = Tensor::empty({1, 64, 64}, DType::f32);
    std::vector<int64_t> ops;
    const auto inject = [](const AuditedResult& result) { flip(result, 7, 3); };
    const Audited all =
        audit({.share = 0.5, .seed = seed, .rank = rank, .inject = inject}, step, [&] {
          for (int i = 0; i < 64; ++i) kernels().matmul.matmul(a, b, y, {});
        });
    for (const AuditMismatch& one : all.found) ops.push_back(one.op);
    return ops;
  };
  const std::vector<int64_t> ops = audited_ops(1, 0, 1);
  EXPECT_GT(ops.size(), 16u);
  EXPECT_LT(ops.size(), 48u);
  EXPECT_EQ(audited_ops(1, 0, 1), ops);
  EXPECT_NE(audited_ops(2, 0, 1), ops);
  EXPECT_NE(audited_ops(1, 1, 1), ops);
  EXPECT_NE(audited_ops(1, 0, 2), ops);
}

TEST(Auditor, AuditsNothingOutsideOfSteps) {
  Auditor auditor(Device::cpu(), {.share = 1});
  const Tensor a = noise({1, 4, 8}, DType::f32, 1), b = noise({1, 8, 4}, DType::f32, 2);
  const Tensor y = Tensor::empty({1, 4, 4}, DType::f32);
  kernels().matmul.matmul(a, b, y, {});
  auditor.begin_step(1);
  auditor.end_step();
  kernels().matmul.matmul(a, b, y, {});
  EXPECT_EQ(auditor.counts().kernels, 0);
}

TEST(Auditor, ThereIsOneAtATime) {
  const Auditor auditor(Device::cpu(), {.share = 1});
  EXPECT_THROW(Auditor(Device::cpu(), {.share = 1}), Error);
}

}  // namespace
}  // namespace binade::backend::auditor_test
