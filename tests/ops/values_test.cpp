#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "binade/amp/autocast.h"
#include "binade/autograd/grad_mode.h"
#include "binade/ops/custom.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/index/index.h"
#include "binade/ops/loss/distance.h"
#include "binade/ops/loss/loss.h"
#include "binade/ops/matmul/einsum.h"
#include "binade/ops/matmul/matmul.h"
#include "binade/ops/norm/norm.h"
#include "binade/ops/norm/softmax.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/pad.h"
#include "binade/ops/shape/shape.h"
#include "support/special_values.h"
#include "support/tensors.h"

// Values the op table's random numbers never hit: ties, zeros, infinities, NaN, integers, mixed
// types.
namespace binade {
namespace {

using test::leaf;
using test::read;
using testing::ElementsAre;
using testing::IsNan;

TEST(Ties, ShareTheGradient) {
  const Tensor x = leaf({3, 1, 3, 3, 2, 2}, {2, 3});
  max(x, 1).backward(ones({2}));
  EXPECT_THAT(read(x.grad()), ElementsAre(0.5, 0, 0.5, 1, 0, 0));
  const Tensor y = leaf({1, 1, 1, 1}, {4});
  min(y).backward();
  EXPECT_THAT(read(y.grad()), ElementsAre(0.25, 0.25, 0.25, 0.25));
  const Tensor a = leaf({1, 2, 3}, {3}), b = leaf({1, 3, 2}, {3});
  sum(maximum(a, b)).backward();
  EXPECT_THAT(read(a.grad()), ElementsAre(0.5, 0, 1));
  EXPECT_THAT(read(b.grad()), ElementsAre(0.5, 1, 0));
}

TEST(Ties, FirstIndexWins) {
  EXPECT_THAT(read(argmax(tensor({2, 5, 5, 1, 1, 0}, {2, 3}))), ElementsAre(1, 0));
  EXPECT_THAT(read(argmin(tensor({2, 1, 1, 4, 4, 4}, {2, 3}))), ElementsAre(1, 0));
}

TEST(NotANumber, Spreads) {
  const Tensor x = tensor({1, nan, 3}, {3});
  EXPECT_THAT(max(x).item(), IsNan());
  EXPECT_THAT(min(x).item(), IsNan());
  EXPECT_THAT(sum(x).item(), IsNan());
  EXPECT_THAT(norm(x).item(), IsNan());
  EXPECT_THAT(norm(x, 3).item(), IsNan());
  EXPECT_THAT(norm(x, infinity).item(), IsNan());
  EXPECT_THAT(read(maximum(x, zeros({3})))[1], IsNan());
  EXPECT_THAT(read(minimum(zeros({3}), x))[1], IsNan());
  EXPECT_THAT(read(relu(x))[1], IsNan());
  EXPECT_THAT(read(clamp(x, 0, 1))[1], IsNan());
  EXPECT_THAT(softmax(x).size(0), 3);
  for (const double value : read(softmax(x))) EXPECT_THAT(value, IsNan());
}

TEST(NotANumber, EqualsNothing) {
  const Tensor x = tensor({nan, 1}, {2});
  EXPECT_THAT(read(eq(x, x)), ElementsAre(0, 1));
  EXPECT_THAT(read(not_equal(x, x)), ElementsAre(1, 0));
  EXPECT_THAT(read(less(x, x)), ElementsAre(0, 0));
  EXPECT_THAT(read(greater_equal(x, x)), ElementsAre(0, 1));
  EXPECT_THAT(read(is_nan(tensor({nan, infinity, 1}, {3}))), ElementsAre(1, 0, 0));
  EXPECT_THAT(read(is_inf(tensor({nan, -infinity, 1}, {3}))), ElementsAre(0, 1, 0));
  EXPECT_THAT(read(is_finite(tensor({nan, infinity, 1}, {3}))), ElementsAre(0, 0, 1));
  EXPECT_THAT(read(logical_not(tensor({nan, 0, 1}, {3}))), ElementsAre(0, 1, 0));
}

TEST(Zeros, HaveAZeroGradientUnderTheNorm) {
  for (const double p : {2.0, 3.0, 1.5}) {
    const Tensor x = leaf({0, 0, 3, 4}, {2, 2});
    norm(x, p, {1}).backward(ones({2}));
    const auto g = read(x.grad());
    EXPECT_EQ(g[0], 0) << p;
    EXPECT_EQ(g[1], 0) << p;
    EXPECT_GT(g[2], 0) << p;
  }
  const Tensor a = leaf({1, 2, 3, 4}, {2, 2});
  sum(cdist(a, a.detach())).backward();  // the diagonal is zero
  for (const double g : read(a.grad())) EXPECT_TRUE(std::isfinite(g));
  const Tensor zero = leaf({0, 0}, {2});
  cosine_similarity(zero, ones({2})).backward();
  for (const double g : read(zero.grad())) EXPECT_TRUE(std::isfinite(g));
}

TEST(Zeros, InAProductLeaveTheOthersTheirGradient) {
  const Tensor one = leaf({2, 0, 3}, {3});
  prod(one).backward();
  EXPECT_THAT(read(one.grad()), ElementsAre(0, 6, 0));
  const Tensor two = leaf({0, 0, 3}, {3});
  prod(two).backward();
  EXPECT_THAT(read(two.grad()), ElementsAre(0, 0, 0));
  const Tensor running = leaf({2, 0, 3}, {3});
  sum(cumprod(running, 0)).backward();
  EXPECT_THAT(read(running.grad()), ElementsAre(1, 8, 0));
}

TEST(Infinities, StayWhereTheyBelong) {
  EXPECT_THAT(read(softmax(tensor({0, -infinity, 0}, {3}))), ElementsAre(0.5, 0, 0.5));
  EXPECT_EQ(logsumexp(tensor({-infinity, -infinity}, {2})).item(), -infinity);
  EXPECT_EQ(logsumexp(tensor({1, infinity}, {2})).item(), infinity);
  EXPECT_EQ(logsumexp(zeros({0})).item(), -infinity);
  // Rows that are replaced do not leave a trace.
  const Tensor x = tensor({infinity, nan, 1, 2}, {2, 2});
  EXPECT_THAT(read(index_put(x, zeros({1}, DType::i64), tensor({5, 6}, {1, 2}))),
              ElementsAre(5, 6, 1, 2));
  // A beta of zero ignores what c holds.
  EXPECT_THAT(read(addmm(tensor({nan}, {1}), ones({1, 2}), ones({2, 1}), 0, 1)), ElementsAre(2));
}

TEST(Integers, AreComparedAddedAndSummedExactly) {
  const int64_t big = (int64_t{1} << 53) + 1;
  const int64_t values[] = {big, 1};
  const Tensor x = tensor(values, {2});
  EXPECT_EQ((x + x).data<int64_t>()[0], 2 * big);
  EXPECT_EQ(sum(x).dtype(), DType::i64);
  EXPECT_EQ(sum(x).data<int64_t>()[0], big + 1);
  EXPECT_EQ(sum(ones({3}, DType::boolean)).item(), 3);
  EXPECT_EQ((ones({2}, DType::i32) * ones({2}, DType::u8)).dtype(), DType::i32);
}

TEST(Integers, AreTrueUnlessZero) {
  const Tensor a = tensor({-2, 0, 0, 3}, {4}, DType::i64),
               b = tensor({0, 0, 5, -1}, {4}, DType::i64);
  EXPECT_THAT(read(logical_or(a, b)), ElementsAre(1, 0, 1, 1));
  EXPECT_THAT(read(logical_and(a, b)), ElementsAre(0, 0, 0, 1));
}

// What no caller names: axes go away, any letter names an axis, a cut may leave nothing.
TEST(Defaults, OfReductionsEquationsAndPadding) {
  const Tensor x = tensor({1, 2, 3, 4, 5, 9}, {2, 3});
  EXPECT_EQ(var(x, {1}).shape(), (Shape{2}));
  EXPECT_EQ(var(x, {1}, true).shape(), (Shape{2, 1}));
  EXPECT_THAT(read(einsum("AZ,aZ->Aa", {x, x})), ElementsAre(14, 41, 41, 122));
  EXPECT_EQ(pad(x, {-1, -2}).shape(), (Shape{2, 0}));
  constexpr int64_t huge = int64_t{1} << 62;
  EXPECT_THROW(pad(x, {huge, 0}), Error);
  EXPECT_THROW(pad(x, {0, huge}), Error);
}

TEST(Integers, DivideToF32) {
  const Tensor a = tensor({7, 1}, {2}, DType::i64), b = tensor({2, 0}, {2}, DType::i64);
  const Tensor y = a / b;
  EXPECT_EQ(y.dtype(), DType::f32);
  EXPECT_THAT(read(y), ElementsAre(3.5, infinity));
  EXPECT_EQ(pow(a, b).dtype(), DType::i64);
  EXPECT_EQ(atan2(a, b).dtype(), DType::f32);
}

TEST(MixedTypes, PromoteButAScalarDoesNot) {
  const Tensor half = ones({2}, DType::f16), wide = ones({2}, DType::f32),
               number = ones({}, DType::f32), whole = ones({2}, DType::i64);
  EXPECT_EQ((half + wide).dtype(), DType::f32);
  EXPECT_EQ((half + ones({2}, DType::bf16)).dtype(), DType::f32);
  EXPECT_EQ((half + number).dtype(), DType::f16);
  EXPECT_EQ((number * half).dtype(), DType::f16);
  EXPECT_EQ((half + whole).dtype(), DType::f16);
  EXPECT_EQ((whole + number).dtype(), DType::f32);
  EXPECT_EQ((half * 2.0).dtype(), DType::f16);
  EXPECT_EQ(where(ones({2}, DType::boolean), half, wide).dtype(), DType::f32);
  EXPECT_EQ(cat({half, wide}, 0).dtype(), DType::f32);
}

TEST(MixedTypes, GiveEachOperandItsGradient) {
  const Tensor half = leaf({1, 2}, {2}, DType::f16), wide = leaf({3, 4}, {2});
  sum(half * wide).backward();
  EXPECT_THAT(read(half.grad()), ElementsAre(3, 4));
  EXPECT_THAT(read(wide.grad()), ElementsAre(1, 2));
  const Tensor a = leaf({1, 2}, {2}, DType::bf16), b = leaf({3}, {1});
  cat({a, b}, 0).backward(tensor({1, 2, 3}, {3}));
  EXPECT_THAT(read(a.grad()), ElementsAre(1, 2));
  EXPECT_THAT(read(b.grad()), ElementsAre(3));
}

TEST(MixedTypes, NormsTakeF32ParametersOn16BitInputs) {
  const Tensor x = test::noise_leaf({4, 16}, 1, DType::bf16), weight = test::noise_leaf({16}, 2),
               bias = test::noise_leaf({16}, 3);
  const Tensor y = layer_norm(x, weight, bias);
  EXPECT_EQ(y.dtype(), DType::bf16);
  y.backward(test::noise({4, 16}, 4, DType::bf16));
  EXPECT_EQ(weight.grad().dtype(), DType::f32);
  EXPECT_EQ(batch_norm(x, weight, bias, {}, {}, {.training = true}).dtype(), DType::bf16);
  EXPECT_EQ(group_norm(x, 4, weight, bias).dtype(), DType::bf16);
}

TEST(Casts, RoundOnceBetweenAnyTypes) {
  EXPECT_EQ(cast(tensor({1 + 0x1p-8}, {1}), DType::bf16).item(), 1) << "halfway: to even";
  EXPECT_EQ(cast(tensor({1 + 3 * 0x1p-8}, {1}), DType::bf16).item(), 1 + 0x1p-6);
  EXPECT_EQ(cast(tensor({70000}, {1}), DType::f16).item(), infinity);
  EXPECT_EQ(cast(tensor({0x1p-24}, {1}), DType::f16).item(), 0x1p-24);
  EXPECT_EQ(cast(tensor({0x1p-26}, {1}), DType::f16).item(), 0);
  EXPECT_EQ(cast(tensor({-2.7}, {1}), DType::i64).item(), -2);
  EXPECT_EQ(cast(tensor({0.5, 0, nan}, {3}), DType::boolean).dtype(), DType::boolean);
  EXPECT_THAT(read(cast(tensor({0.5, 0, -3}, {3}), DType::boolean)), ElementsAre(1, 0, 1));
  const Tensor x = leaf({1, 2}, {2});
  EXPECT_TRUE(cast(x, DType::f32).same_as(x));
  EXPECT_FALSE(cast(x, DType::i64).requires_grad());
  const Tensor low = cast(x, DType::bf16);
  low.backward(tensor({3, 4}, {2}, DType::bf16));
  EXPECT_THAT(read(x.grad()), ElementsAre(3, 4));
}

TEST(Sums, NameTheirType) {
  const Tensor x = full({1000}, 1.0, DType::f16);
  EXPECT_EQ(sum(x * 100.0).item(), infinity) << "100000 is past f16";
  EXPECT_EQ(sum(x * 100.0, {}, false, DType::f32).item(), 100000)
      << "though the sum itself was f32 all along";
  EXPECT_EQ(mean(x * 100.0).item(), 100);
  EXPECT_EQ(mean(ones({4}, DType::i64), {}, false, DType::f32).item(), 1);
  // 4096 ones after a 2048: in f16 each of them would be lost.
  EXPECT_EQ(sum(cat({full({1}, 2048, DType::f16), ones({4096}, DType::f16)}, 0)).item(), 6144);
}

TEST(BatchNorm, MovesItsRunningStatistics) {
  const Tensor x = tensor({1, 10, 3, 30}, {2, 2}), mean = tensor({1, 1}, {2}),
               variance = tensor({2, 2}, {2});
  batch_norm(x, {}, {}, mean, variance, {.training = true, .momentum = 0.25});
  // Batch means 2 and 20, unbiased variances 2 and 200.
  EXPECT_THAT(read(mean), ElementsAre(0.75 + 0.5, 0.75 + 5));
  EXPECT_NEAR(read(variance)[0], 1.5 + 0.5, 1e-5);
  EXPECT_NEAR(read(variance)[1], 1.5 + 50, 1e-3);
  EXPECT_GT(mean.version(), 0u);
  const uint64_t version = mean.version();
  batch_norm(x, {}, {}, mean, variance, {.training = false});
  EXPECT_EQ(mean.version(), version) << "evaluation leaves them alone";
}

TEST(Views, ShareTheirData) {
  const Tensor x = tensor({1, 2, 3, 4, 5, 6}, {2, 3});
  for (const Tensor& view : {reshape(x, {3, 2}), transpose(x, 0, 1), slice(x, 1, 0, 2),
                             select(x, 0, 0), unsqueeze(x, 0), expand(x, {2, 2, 3}), flatten(x)}) {
    EXPECT_EQ(view.storage(), x.storage());
  }
  EXPECT_TRUE(contiguous(x).same_as(x));
  EXPECT_NE(reshape(transpose(x, 0, 1), {6}).storage(), x.storage())
      << "strides that no view can have";
  EXPECT_EQ(reshape(slice(x, 0, 0, 1), {3}).storage(), x.storage());
  EXPECT_THAT(read(split(x, 2, 1)[1]), ElementsAre(3, 6));
  EXPECT_EQ(split(x, std::vector<int64_t>{1, 2}, 1)[1].storage(), x.storage());
}

TEST(Views, TakeHostileBounds) {
  const int64_t most = std::numeric_limits<int64_t>::max(),
                least = std::numeric_limits<int64_t>::min();
  const Tensor x = leaf({1, 2, 3, 4, 5}, {5});
  EXPECT_THAT(read(slice(x, 0, 1, 5, most)), ElementsAre(2));
  EXPECT_THAT(read(slice(x, 0, least, most, most)), ElementsAre(1));
  EXPECT_THAT(read(slice(x, 0, least, most)), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_EQ(slice(x, 0, most, least).numel(), 0);
  EXPECT_EQ(slice(x, 0, 5, 5, most).numel(), 0);
  EXPECT_EQ(split(x, most, 0).size(), 1u);
  EXPECT_EQ(split(x, std::vector<int64_t>{0, 5, 0}, 0)[2].numel(), 0);
  sum(slice(x, 0, 1, 5, most) * 3.0).backward();
  EXPECT_THAT(read(x.grad()), ElementsAre(0, 3, 0, 0, 0));
}

TEST(Views, IndexTheFirstAxis) {
  const Tensor x = leaf({1, 2, 3, 4, 5, 6}, {2, 3});
  EXPECT_THAT(read(x[1]), ElementsAre(4, 5, 6));
  EXPECT_EQ(x[-1][0].item(), 4);
  x[0][2].backward();
  EXPECT_THAT(read(x.grad()), ElementsAre(0, 0, 1, 0, 0, 0));
  EXPECT_EQ(test::error_of([&] { x[2]; }),
            "select: index: expected inside axis 0 of [2, 3] f32 cpu, found 2");
  EXPECT_THAT(test::error_of([&] { x[0][0][0]; }),
              testing::HasSubstr("expected at least one dimension"));
}

TEST(Hints, SpeakOfAutocastOnlyWhereItHelps) {
  const auto error_of = [](const Tensor& a, const Tensor& b) {
    return test::error_of([&] { mm(a, b); });
  };
  const Tensor f32 = ones({2, 2}), f16 = ones({2, 2}, DType::f16), f64 = ones({2, 2}, DType::f64);
  EXPECT_EQ(error_of(f32, f16),
            "mm: inputs: expected one dtype, found f32 and f16; cast() one of them or run under "
            "amp::Autocast");
  EXPECT_EQ(error_of(f32, f64),
            "mm: inputs: expected one dtype, found f32 and f64; cast() one of them");
  const amp::Autocast guard(DType::bf16);
  EXPECT_EQ(error_of(f32, f64),
            "mm: inputs: expected one dtype, found bf16 and f64; cast() one of them");
}

TEST(CustomOps, TakePartInAutocast) {
  DType seen = DType::f64;
  bool inside = true;
  const CustomOp op{.name = "mine",
                    .cast = CastClass::lower,
                    .forward =
                        [&](std::span<const Tensor> x) {
                          seen = x[0].dtype();
                          inside = amp::autocast_state().enabled;
                          return x[0] * 2.0;
                        },
                    .backward = [](const Tensor& dy, std::span<const Tensor>, const Tensor&,
                                   autograd::GradSlots dx) { dx[0].add(dy * 2.0); }};
  const Tensor x = leaf({1, 2}, {2});
  {
    const amp::Autocast cast(DType::bf16);
    sum(custom(op, {x}), {}, false, DType::f32).backward();
  }
  EXPECT_EQ(seen, DType::bf16);
  EXPECT_FALSE(inside);
  EXPECT_THAT(read(x.grad()), ElementsAre(2, 2));
  EXPECT_EQ(x.grad().dtype(), DType::f32);
}

TEST(CastCache, TellsAMatrixFromItsTranspose) {
  const Tensor weight = leaf({1, 2, 3, 4}, {2, 2});
  Tensor transposed = weight.detach().strided({2, 2}, {1, 2}, 0);
  transposed.set_requires_grad();
  const amp::Autocast cast(DType::bf16);
  EXPECT_THAT(read(mm(ones({1, 2}), weight)), ElementsAre(4, 6));
  EXPECT_THAT(read(mm(ones({1, 2}), transposed)), ElementsAre(3, 7));
  EXPECT_THAT(read(mm(ones({1, 2}), weight)), ElementsAre(4, 6));
}

TEST(CustomOps, SayWhatTheyLack) {
  const Tensor x = leaf({1}, {1});
  CustomOp op{.name = "mine"};
  EXPECT_EQ(test::error_of([&] { custom(op, {x}); }),
            "mine: forward: expected a function, found none");
  op.forward = [](std::span<const Tensor> in) { return in[0] * 2.0; };
  EXPECT_EQ(test::error_of([&] { custom(op, {x}); }),
            "mine: backward: expected a function, as an input requires a gradient, found none");
  const NoGrad plain;
  EXPECT_THAT(read(custom(op, {x})), ElementsAre(2));
}

}  // namespace
}  // namespace binade
