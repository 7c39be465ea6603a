#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "backend/audit/audited.h"
#include "binade/backend/audit/auditor.h"
#include "binade/backend/backend.h"
#include "binade/backend/gpu.h"
#include "binade/backend/transfer.h"
#include "binade/backend/update_rules.h"
#include "binade/base/random.h"

// The audit of a GPU's matmuls by the model of tensor cores, and of its other kernels by itself.
namespace binade::backend::modelled_matmul_test {
namespace {

class ModelledMatmulGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (gpus().empty()) GTEST_SKIP() << "no GPU";
  }
};

using audit_test::Audited;

Tensor noise(const Shape& shape, DType dtype, uint64_t stream) {
  return audit_test::noise(shape, dtype, stream, Device::cuda());
}

template <class Work>
Audited audit(AuditOptions options, Work work) {
  return audit_test::audit_step(Device::cuda(), std::move(options), 1, work);
}

const Backend& kernels() { return of(Device::cuda()); }

std::string first_of(const Audited& audited) {
  if (audited.found.empty()) return "";
  const AuditMismatch& one = audited.found[0];
  return one.kernel + " " + std::to_string(one.op) + " " + one.tensor + "[" +
         std::to_string(one.index) + "] is " + std::to_string(one.found) + ", expected " +
         std::to_string(one.expected) + ", different " + std::to_string(one.different);
}

struct Sizes {
  int64_t batch, m, n, k;
};
struct Types {
  const char* name;
  DType operand, result;
  bool tf32 = false, fast = false;
};

constexpr Types all_types[] = {
    {"bf16", DType::bf16, DType::bf16},
    {"bf16 into f32", DType::bf16, DType::f32},
    {"f16", DType::f16, DType::f16},
    {"f32", DType::f32, DType::f32},
    {"tf32", DType::f32, DType::f32, true},
    {"e4m3", DType::e4m3, DType::bf16, false, true},
    {"e4m3 without fast accumulation", DType::e4m3, DType::bf16},
    {"e4m3 into f32", DType::e4m3, DType::f32},
};

TEST_F(ModelledMatmulGpu, NoMatmulRaisesAFalseAlarm) {
  for (const Types& types : all_types) {
    for (const auto& [batch, m, n, k] : {Sizes{1, 1, 130, 33},
                                         {1, 65, 1, 700},
                                         {2, 64, 129, 48},
                                         {3, 5, 7, 9},
                                         {1, 256, 512, 768},
                                         {1, 128, 192, 4096}}) {
      const Tensor a = noise({batch, m, k}, types.operand, 1),
                   b = noise({batch, n, k}, types.operand, 2);
      const Tensor y = noise({batch, m, n}, types.result, 3),
                   pre = noise({batch, m, n}, types.result, 4);
      const Tensor bias = noise({n}, types.result, 5);
      const auto shown = std::string(types.name) + " " + std::to_string(m) + " x " +
                         std::to_string(n) + " x " + std::to_string(k);
      const auto run = [&](Epilogue epilogue) {
        epilogue.tf32 = types.tf32;
        epilogue.fast_accumulation = types.fast;
        const Audited all =
            audit({.share = 1}, [&] { kernels().matmul.matmul(a, transposed(b), y, epilogue); });
        EXPECT_TRUE(all.found.empty()) << shown << ": " << first_of(all);
        EXPECT_EQ(all.counts.audited, all.counts.pieces);
        return all.counts.rounded;
      };
      // Its kernels add in ascending order, so that every bit is compared with the model's.
      const int64_t by_a_second_run = run({});
      if (m == 256 && types.operand != DType::f32) {
        EXPECT_EQ(by_a_second_run, 0) << shown;
      }
      run({.alpha = 0.5f, .beta = 1});
      run({.bias = bias});
      for (const Activation activation : {Activation::gelu_tanh, Activation::silu})
        run({.bias = bias, .activation = activation, .pre_activation = pre});
      run({.activation = Activation::gelu});
    }
  }
}

// A rounding error of the sum could be as large.
TEST_F(ModelledMatmulGpu, FindsTheLastBitOfA16BitResult) {
  const int64_t m = 192, n = 320, k = 512;
  const Tensor a = noise({1, m, k}, DType::bf16, 1), b = noise({1, n, k}, DType::bf16, 2);
  const Tensor y = noise({1, m, n}, DType::bf16, 3);
  for (const int64_t element : {int64_t{0}, int64_t{70} * n + 65, m * n - 1}) {
    for (const int bit : {0, 3, 6}) {
      const Audited all = audit(
          {.share = 1,
           .inject = [&](const AuditedResult& result) { flip_bit(result, 2 * element, bit); }},
          [&] { kernels().matmul.matmul(a, transposed(b), y, {}); });
      ASSERT_EQ(all.found.size(), 1u) << element << " bit " << bit;
      EXPECT_EQ(all.found[0].index, element);
      EXPECT_EQ(all.found[0].different, 1);
      EXPECT_EQ(all.found[0].found_bits ^ all.found[0].expected_bits, uint64_t{1} << bit);
    }
  }
}

// The order of a sum in f32 units is unknown, but a second run has the same.
TEST_F(ModelledMatmulGpu, FindsTheLastBitOfAnF32Result) {
  const Tensor a = noise({1, 64, 100}, DType::f32, 1), b = noise({1, 64, 100}, DType::f32, 2);
  for (const float beta : {0.0f, 1.0f}) {
    const Tensor y = noise({1, 64, 64}, DType::f32, 3);
    for (const int bit : {0, 12, 22, 30}) {
      const Audited all = audit(
          {.share = 1,
           .inject =
               [&](const AuditedResult& result) { flip_bit(result, 4 * 77 + bit / 8, bit % 8); }},
          [&] { kernels().matmul.matmul(a, transposed(b), y, {.beta = beta}); });
      ASSERT_EQ(all.found.size(), 1u) << bit;
      EXPECT_EQ(all.found[0].index, 77) << bit;
    }
  }
}

TEST_F(ModelledMatmulGpu, NormsAndUpdatesAreComputedAgainByTheGpu) {
  const int64_t rows = 37, width = 70;
  const auto work = [&] {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const Tensor x = noise({rows, width}, dtype, 1), other = noise({rows, width}, dtype, 2);
      const Tensor weight = noise({width}, DType::f32, 3), dy = noise({rows, width}, dtype, 4);
      const Tensor sum = Tensor::empty_like(x), y = Tensor::empty_like(x);
      const Tensor rstd = Tensor::empty({rows}, DType::f32, Device::cuda());
      const Tensor dx = noise({rows, width}, dtype, 5);
      kernels().norm.forward({.kind = NormKind::rms,
                              .x = x,
                              .residual = other,
                              .weight = weight,
                              .eps = 1e-5,
                              .sum = sum,
                              .y = y,
                              .rstd = rstd});
      kernels().norm.backward({.kind = NormKind::rms,
                               .dy = dy,
                               .dsum = other,
                               .x = sum,
                               .weight = weight,
                               .rstd = rstd,
                               .dx = {dx, false}});
    }
    const Tensor w = noise({5000}, DType::f32, 6), gradient = noise({5000}, DType::f32, 7);
    const Tensor m = noise({5000}, DType::f32, 8), v = noise({5000}, DType::f32, 9);
    const Tensor low = noise({5000}, DType::bf16, 10);
    kernels().elementwise.unary(Unary::abs, {}, v, v);
    const std::vector<UpdateItem> items = {
        {.master = w, .gradient = gradient, .first = m, .second = v, .copy = low}};
    kernels().optimizer.update(items,
                               AdamParams{.lr = 1e-3,
                                          .beta1 = 0.9,
                                          .beta2 = 0.99,
                                          .eps = 1e-8,
                                          .weight_decay = 0.1,
                                          .correction1 = 0.5,
                                          .correction2 = 0.3},
                               {});
  };
  const Audited all = audit({.share = 1}, work);
  EXPECT_TRUE(all.found.empty()) << first_of(all);
  EXPECT_EQ(all.counts.kernels, 5);
  for (int64_t op = 0; op < 5; ++op) {
    const Audited faulty = audit({.share = 1,
                                  .inject =
                                      [&](const AuditedResult& result) {
                                        if (result.op == op) flip_bit(result, 0, 0);
                                      }},
                                 work);
    ASSERT_FALSE(faulty.found.empty()) << op;
    EXPECT_EQ(faulty.found[0].op, op);
    EXPECT_EQ(faulty.found[0].index, 0);
  }
}

}  // namespace
}  // namespace binade::backend::modelled_matmul_test
