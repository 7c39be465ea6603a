#include "binade/autograd/autograd_meta.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/reduce/reduce.h"
#include "support/tensors.h"

namespace binade {
namespace {

using test::leaf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(TensorAutograd, LeavesAreTensorsTheUserCreated) {
  const Tensor x = leaf({1, 2}, {2});
  EXPECT_TRUE(x.is_leaf());
  EXPECT_TRUE(x.requires_grad());
  EXPECT_FALSE(x.grad().defined());
  const Tensor y = x * x;
  EXPECT_FALSE(y.is_leaf());
  EXPECT_TRUE(y.requires_grad());
  const Tensor plain = tensor({1, 2}, {2});
  EXPECT_TRUE((plain * plain).is_leaf());
  EXPECT_FALSE((plain * plain).requires_grad());
  EXPECT_FALSE(Tensor().requires_grad());
}

TEST(TensorAutograd, OnlyFloatingLeavesAccumulateGradients) {
  Tensor whole = tensor({1, 2}, {2}, DType::i64);
  EXPECT_THAT(
      test::error_of([&] { whole.set_requires_grad(); }),
      HasSubstr("set_requires_grad: dtype: expected f64, f32, f16 or bf16, found [2] i64 cpu"));
  Tensor result = leaf({1}, {1}) * 2.0;
  EXPECT_THAT(test::error_of([&] { result.set_requires_grad(false); }),
              HasSubstr("set_requires_grad: tensor: expected a leaf, found the result of an op; "
                        "detach() it first"));
}

TEST(TensorAutograd, CanBeSwitchedOff) {
  Tensor x = leaf({1, 2}, {2});
  x.set_requires_grad(false);
  EXPECT_FALSE((x * x).requires_grad());
  x.set_requires_grad();
  EXPECT_TRUE((x * x).requires_grad());
}

TEST(TensorAutograd, GradientsOf16BitLeavesAreF32) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    const Tensor x = leaf({1, 2, 3}, {3}, dtype);
    EXPECT_EQ(x.grad_dtype(), DType::f32);
    sum(x * x).backward();
    EXPECT_EQ(x.grad().dtype(), DType::f32) << name(dtype);
    EXPECT_THAT(test::read(x.grad()), ElementsAre(2, 4, 6));
  }
  const Tensor wide = leaf({1, 2, 3}, {3}, DType::f64);
  sum(wide).backward();
  EXPECT_EQ(wide.grad().dtype(), DType::f64);
}

// 256 + 1 is 256 in bf16: only a wider buffer keeps small contributions.
TEST(TensorAutograd, SmallGradientsAddUpInF32AndAreLostInBf16) {
  const auto accumulated = [](DType grad_dtype) {
    const Tensor x = leaf({1}, {1}, DType::bf16);
    x.set_grad_dtype(grad_dtype);
    (x * 256.0).backward();
    for (int i = 0; i < 16; ++i) (x * 1.0).backward();
    EXPECT_EQ(x.grad().dtype(), grad_dtype);
    return test::read(x.grad())[0];
  };
  EXPECT_EQ(accumulated(DType::f32), 272);
  EXPECT_EQ(accumulated(DType::bf16), 256);
}

TEST(TensorAutograd, AnotherGradientTypeDropsTheGradient) {
  const Tensor x = leaf({1, 2}, {2}, DType::bf16);
  sum(x).backward();
  x.set_grad_dtype(DType::f32);
  EXPECT_TRUE(x.grad().defined()) << "the same type keeps it";
  x.set_grad_dtype(DType::bf16);
  EXPECT_FALSE(x.grad().defined());
  sum(x).backward();
  EXPECT_EQ(x.grad().dtype(), DType::bf16);
  EXPECT_THAT(test::error_of([&] { x.set_grad_dtype(DType::i64); }),
              HasSubstr("set_grad_dtype: dtype"));
  EXPECT_THAT(test::error_of([] { tensor({1}, {1}).set_grad_dtype(DType::f32); }),
              HasSubstr("set_grad_dtype: tensor: expected a leaf that requires a gradient"));
}

TEST(TensorAutograd, ZeroGradKeepsTheBuffer) {
  const Tensor x = leaf({1, 2}, {2});
  sum(x * x).backward();
  const void* buffer = x.grad().raw_data();
  x.zero_grad();
  EXPECT_FALSE(x.grad().defined());
  sum(x * 3.0).backward();
  EXPECT_EQ(x.grad().raw_data(), buffer);
  EXPECT_THAT(test::read(x.grad()), ElementsAre(3, 3)) << "overwritten, not added to";
  tensor({1}, {1}).zero_grad();  // no gradient, nothing to do
}

TEST(TensorAutograd, SetGradReplacesIt) {
  const Tensor x = leaf({1, 2}, {2});
  x.set_grad(tensor({5, 6}, {2}));
  sum(x).backward();
  EXPECT_THAT(test::read(x.grad()), ElementsAre(6, 7));
  EXPECT_THAT(
      test::error_of([&] { x.set_grad(tensor({1}, {1})); }),
      HasSubstr("set_grad: grad: expected a floating tensor like [2] f32 cpu, found [1] f32 cpu"));
  EXPECT_THAT(test::error_of([&] {
                x.set_grad(tensor({1, 2}, {2}, DType::i64));
              }),
              HasSubstr("set_grad: grad"));
  EXPECT_THAT(test::error_of([&] { x.set_grad(Tensor::empty({2}, DType::f32, Device::meta())); }),
              HasSubstr("found [2] f32 meta"));
  EXPECT_NE(test::error_of([&] { x.set_grad(Tensor()); }), "");
  EXPECT_NE(test::error_of([&] { tensor({1}, {1}).set_grad(tensor({1}, {1})); }), "");
}

TEST(TensorAutograd, SetGradSetsItsType) {
  const Tensor x = leaf({1, 2}, {2});
  x.set_grad(tensor({256, 256}, {2}, DType::bf16));
  EXPECT_EQ(x.grad_dtype(), DType::bf16);
  sum(x).backward();  // 257 is no bf16 number
  EXPECT_EQ(x.grad().dtype(), DType::bf16);
  EXPECT_THAT(test::read(x.grad()), ElementsAre(256, 256));
  x.set_grad_dtype(DType::bf16);
  EXPECT_TRUE(x.grad().defined()) << "the same type keeps it";
}

TEST(TensorAutograd, NewDataOfTheSameKindKeepsGradientAndHooks) {
  const Tensor x = leaf({1, 2}, {2});
  x.register_hook([](const Tensor& gradient) { return gradient * 10; });
  sum(x).backward();
  const Tensor before = x.detach(), values = tensor({3, 4}, {2});
  x.set_data(values);
  EXPECT_EQ(x.raw_data(), values.raw_data());
  EXPECT_THAT(test::read(before), ElementsAre(1, 2));
  EXPECT_THAT(test::read(x.grad()), ElementsAre(10, 10));
  sum(x * x).backward();
  EXPECT_THAT(test::read(x.grad()), ElementsAre(70, 90));
  x.set_data(tensor({1, 2, 3}, {3}));
  EXPECT_TRUE(x.requires_grad());
  EXPECT_FALSE(x.grad().defined());
}

TEST(TensorAutograd, DetachCutsTheGraph) {
  const Tensor x = leaf({2}, {1});
  const Tensor y = x * x;
  const Tensor cut = y.detach();
  EXPECT_FALSE(cut.requires_grad());
  EXPECT_TRUE(cut.is_leaf());
  (cut * x).backward();
  EXPECT_THAT(test::read(x.grad()), ElementsAre(4));
}

}  // namespace
}  // namespace binade
