#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <type_traits>

#include "binade/autograd/autograd_meta.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/index/sort.h"
#include "binade/ops/libtorch_names.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/shape.h"
#include "support/tensors.h"

// Methods as they are typed for LibTorch. Most call a function of their name, so that one call of
// each form in ops.def is enough; those with a meaning of their own are all here.
namespace binade {
namespace {

using test::error_of;
using test::leaf;
using test::read;
using testing::ElementsAre;
using testing::HasSubstr;

Tensor grid() { return arange(6).to(kFloat).view({2, 3}); }

TEST(Methods, DescribeATensor) {
  const Tensor x = grid();
  EXPECT_EQ(x.sizes(), (Shape{2, 3}));
  EXPECT_EQ(x.dim(), 2);
  EXPECT_EQ(x.element_size(), 4);
  EXPECT_EQ(x.nbytes(), 24);
  EXPECT_EQ(x.scalar_type(), kFloat32);
  EXPECT_TRUE(x.is_contiguous() && !x.t().is_contiguous());
  EXPECT_TRUE(x.is_floating_point() && !x.to(kLong).is_floating_point());
  EXPECT_FALSE(x.is_cuda());
  EXPECT_EQ(x[1][2].item<int>(), 5);
  EXPECT_EQ(x[1][2].item<float>(), 5.f);
}

TEST(Methods, ReadAndWriteMemory) {
  const Tensor x = grid();
  const uint64_t version = x.version();
  EXPECT_EQ(x.const_data_ptr<float>()[4], 4.f);
  EXPECT_EQ(x.version(), version);
  x.data_ptr<float>()[4] = 9;
  EXPECT_EQ(x.version(), version + 1);
  EXPECT_EQ(x[1][1].item(), 9);
}

TEST(Methods, Compute) {
  const Tensor x = grid();
  EXPECT_THAT(read(x.add(1).mul(2).sub(x).div(2)), ElementsAre(1, 1.5, 2, 2.5, 3, 3.5));
  EXPECT_THAT(read(x.pow(2)), ElementsAre(0, 1, 4, 9, 16, 25));
  EXPECT_THAT(read(x.gt(2) & x.lt(5)), ElementsAre(0, 0, 0, 1, 1, 0));
  EXPECT_THAT(read(x.ge(5) | x.le(0)), ElementsAre(1, 0, 0, 0, 0, 1));
  EXPECT_THAT(read(x.ne(3)), ElementsAre(1, 1, 1, 0, 1, 1));
  EXPECT_THAT(read(x.eq(x)), testing::Each(1));
  EXPECT_THAT(read(x.clamp(1, 3)), ElementsAre(1, 1, 2, 3, 3, 3));
  EXPECT_THAT(read(x.clamp_min(4)), ElementsAre(4, 4, 4, 4, 4, 5));
  EXPECT_THAT(read(x.clamp_max(1)), ElementsAre(0, 1, 1, 1, 1, 1));
  EXPECT_THAT(read(x.masked_fill(x > 3, -1)), ElementsAre(0, 1, 2, 3, -1, -1));
  EXPECT_THAT(read(x.where(x > 3, -x)), ElementsAre(0, -1, -2, -3, 4, 5));
  EXPECT_THAT(read(x.matmul(x.t())), ElementsAre(5, 14, 14, 50));
  EXPECT_THAT(read((x / x).isnan()), ElementsAre(1, 0, 0, 0, 0, 0));
}

TEST(Methods, Reduce) {
  const Tensor x = grid();
  EXPECT_EQ(x.sum().item(), 15);
  EXPECT_THAT(read(x.sum(1)), ElementsAre(3, 12));
  EXPECT_EQ(x.sum({0, 1}, true).sizes(), (Shape{1, 1}));
  EXPECT_THAT(read(x.mean(0)), ElementsAre(1.5, 2.5, 3.5));
  EXPECT_EQ(x.std().item(), binade::std(x).item());
  EXPECT_EQ(x.max().item(), 5);
  EXPECT_EQ(x.argmax().item(), 5) << "of all elements";
  EXPECT_THAT(read(x.argmin(1)), ElementsAre(0, 0));
  EXPECT_THAT(read(x.amax({1}, false)), ElementsAre(2, 5));
}

TEST(Methods, ExtremesAreValuesAndIndices) {
  const Tensor x = tensor({3, 7, 5, 9, 2, 4}, {2, 3});
  const auto [values, indices] = x.max(1);
  EXPECT_THAT(read(values), ElementsAre(7, 9));
  EXPECT_THAT(read(indices), ElementsAre(1, 0));
  EXPECT_EQ(indices.dtype(), kLong);
  const auto [least, at] = min(x, 0, true);
  EXPECT_THAT(read(least), ElementsAre(3, 2, 4));
  EXPECT_THAT(read(at), ElementsAre(0, 1, 1));
  EXPECT_EQ(at.sizes(), (Shape{1, 3}));
  const Tensor plain = max(x, 1);
  EXPECT_THAT(read(plain), ElementsAre(7, 9));
  const Tensor w = leaf({1, 5, 2, 3}, {2, 2});
  const auto [most, which] = w.max(1);
  most.sum().backward();
  EXPECT_THAT(read(w.grad()), ElementsAre(0, 1, 0, 1));
}

TEST(Methods, ChangeShapes) {
  const Tensor x = grid();
  EXPECT_EQ(x.permute({1, 0}).sizes(), (Shape{3, 2}));
  EXPECT_EQ(x.unsqueeze(0).unsqueeze(-1).squeeze().sizes(), (Shape{2, 3}));
  EXPECT_EQ(x.unsqueeze(0).squeeze(0).sizes(), (Shape{2, 3}));
  EXPECT_EQ(x.unsqueeze(0).expand({4, 2, 3}).sizes(), (Shape{4, 2, 3}));
  EXPECT_EQ(x.flatten().sizes(), (Shape{6}));
  EXPECT_THAT(read(x.narrow(1, 1, 2)), ElementsAre(1, 2, 4, 5));
  EXPECT_THAT(read(x.slice(1, 0, 3, 2)), ElementsAre(0, 2, 3, 5));
  EXPECT_THAT(read(x.select(1, -1)), ElementsAre(2, 5));
  EXPECT_EQ(x.chunk(2, 1).size(), 2u);
  const std::vector<Tensor> columns = x.unbind(1);
  ASSERT_EQ(columns.size(), 3u);
  EXPECT_THAT(read(columns[1]), ElementsAre(1, 4));
  EXPECT_EQ(x.t().t().data_ptr<float>(), x.data_ptr<float>());
  EXPECT_THAT(error_of([&] { x.t().view({6}); }), HasSubstr("view: shape: expected one that the"));
  EXPECT_THAT(error_of([] { ones({1, 1, 1}).t(); }), HasSubstr("t: x"));
  EXPECT_EQ(x.to(kCPU, kHalf).dtype(), kFloat16);
}

TEST(Methods, Index) {
  const Tensor x = grid();
  EXPECT_THAT(read(x.index({1, Slice(None, 2)})), ElementsAre(3, 4));
  EXPECT_THAT(read(x.index({Ellipsis, 0})), ElementsAre(0, 3));
  EXPECT_THAT(read(x.gather(1, tensor({2, 0}).unsqueeze(1))), ElementsAre(2, 3));
  EXPECT_THAT(read(x.index_select(0, tensor({1}))), ElementsAre(3, 4, 5));
  x.index_put_({0, 0}, 7);
  EXPECT_EQ(x[0][0].item(), 7);
}

TEST(Methods, WriteIntoTheTensor) {
  const Tensor x = grid(), same = x;
  x.add_(1).mul_(2).sub_(x).div_(ones({3}));
  EXPECT_THAT(read(same), testing::Each(0)) << "2 (x + 1) minus itself";
  x.copy_(arange(3)).add_(ones({2, 3}), 0.5);
  EXPECT_THAT(read(x), ElementsAre(0.5, 1.5, 2.5, 0.5, 1.5, 2.5));
  x[0].zero_();
  x[1].fill_(3);
  x.masked_fill_(x > 2, 4);
  EXPECT_THAT(read(x), ElementsAre(0, 0, 0, 4, 4, 4));
  const Tensor w = leaf({2, 3}, {2});
  const Tensor y = w * 1;
  y.mul_(w).add_(w, 3);
  y.sum().backward();
  EXPECT_THAT(read(w.grad()), ElementsAre(7, 9));
}

TEST(Methods, WriteTheirOpsIntoTheTensor) {
  const Tensor x = grid(), same = x[1];
  x.square_().clamp_(2, 20).remainder_(7).pow_(tensor({1.0, 2.0, 0.0}));
  EXPECT_THAT(read(x), ElementsAre(2, 4, 1, 2, 4, 1)) << "of 2 2 4 9 16 20, then 2 2 4 2 2 6";
  EXPECT_THAT(read(same), ElementsAre(2, 4, 1)) << "a view";
  EXPECT_THAT(read(x.masked_fill_(x > 3, -1).neg_().relu_()), ElementsAre(0, 1, 0, 0, 1, 0));
  EXPECT_EQ(x.tril_(-1).sum().item(), 0);
  const Tensor index = tensor({3, -7});
  EXPECT_THAT(read(index.floor_divide_(2)), ElementsAre(1, -4));
}

TEST(Methods, WriteTheirOpsIntoTheGraph) {
  const Tensor w = leaf({0.5, -2, 3}, {3});
  const Tensor y = w * 2;
  y.square_();                 // 4 w^2, whose backward reads y as it was
  y.pow_(y.detach() * 0 + 2);  // 16 w^4
  y.clamp_max_(1000);          // the last one is 1296
  y.sum().backward();
  EXPECT_THAT(read(w.grad()), ElementsAre(8, -512, 0));
  const Tensor z = w * 1;
  z.pow_(z);  // z^z of the first and last element
  z.slice(0, 2, 3).sum().backward();
  EXPECT_NEAR(read(w.grad())[2], 27 * (1 + std::log(3)), 1e-4);
  EXPECT_THAT(error_of([&] { w.exp_(); }), HasSubstr("exp_: x: expected"));
  EXPECT_THAT(error_of([] { arange(3).remainder_(0.5); }),
              HasSubstr("remainder_: x: expected one that holds the result, [3] f32"));
  EXPECT_THAT(error_of([] { ones({1}).expand({3}).neg_(); }), HasSubstr("neg_: x"));
  EXPECT_THAT(error_of([] { ones({2}).pow_(ones({3, 2})); }), HasSubstr("pow_: x"));
}

TEST(Methods, AskForGradients) {
  const Tensor x = ones({2}).requires_grad_();
  std::vector<double> seen;
  x.register_hook([&](const Tensor& gradient) { seen = read(gradient); });
  const Tensor y = x * 3;
  y.register_hook([](const Tensor& gradient) { return gradient * 2; });
  y.sum().backward();
  EXPECT_THAT(seen, ElementsAre(6, 6));
  EXPECT_THAT(read(x.grad()), ElementsAre(6, 6));
  const NoGradGuard guard;
  EXPECT_FALSE((x * 2).requires_grad());
}

TEST(Methods, CompareWithTolerance) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const Tensor x = tensor({1.0, 100.0, inf});
  EXPECT_TRUE(x.allclose(tensor({1.0, 100.0005, inf})));
  EXPECT_FALSE(x.allclose(tensor({1.0, 100.01, inf})));
  EXPECT_FALSE(x.allclose(tensor({1.0, 100.0, 5.0})));
  EXPECT_FALSE(tensor({5.0}).allclose(tensor({inf})));
  EXPECT_TRUE(tensor({1.0}).allclose(tensor({1.5}), 0, 0.5));
  EXPECT_FALSE(tensor({nan}).allclose(tensor({nan})));
}

// 1 is an axis, whatever its type, and a flag is none.
TEST(Methods, SpreadAlongOneAxisOrAll) {
  const Tensor x = tensor({{1.0, 3.0}, {2.0, 6.0}});
  EXPECT_THAT(read(x.var(1)), ElementsAre(2, 8));
  EXPECT_THAT(read(x.var(int64_t{0})), ElementsAre(0.5, 4.5));
  EXPECT_THAT(read(x.var(false)), ElementsAre(3.5));
  EXPECT_THAT(read(x.std(1, false)), ElementsAre(1, 2));
  EXPECT_EQ(x.std(0).shape(), (Shape{2}));
  EXPECT_EQ(x.std(true).shape(), Shape{});
  static_assert(!std::is_constructible_v<Axes, bool>);
}

TEST(Methods, TakeNumbersForLists) {
  const Tensor x = grid();
  EXPECT_THAT(read(x.flip(1)), ElementsAre(2, 1, 0, 5, 4, 3));
  EXPECT_THAT(read(x.flip({})), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(read(x.roll(1, 0)), ElementsAre(3, 4, 5, 0, 1, 2));
  EXPECT_THAT(read(x.roll(1)), ElementsAre(5, 0, 1, 2, 3, 4));
  EXPECT_THAT(read(x.clamp(3)), ElementsAre(3, 3, 3, 3, 4, 5));
  EXPECT_THAT(read(x.max(x.flip(1))), ElementsAre(2, 1, 2, 5, 4, 5));
  EXPECT_THAT(read(x.split({1, 2}, 1)[1]), ElementsAre(1, 2, 4, 5));
}

TEST(Methods, ExpandKeepsSizesOfMinusOne) {
  const Tensor x = grid().unsqueeze(1);
  EXPECT_EQ(x.expand({-1, 4, -1}).shape(), (Shape{2, 4, 3}));
  EXPECT_EQ(x.expand({5, -1, 4, -1}).shape(), (Shape{5, 2, 4, 3}));
  EXPECT_THAT(error_of([&] { x.expand({-1, 2, 4, 3}); }), HasSubstr("or -1 for those of"));
  EXPECT_THAT(error_of([&] { x.expand({-2, 4, 3}); }), HasSubstr("found [-2, 4, 3]"));
}

TEST(Methods, WriteSourcesIntoPlaces) {
  const Tensor x = grid();
  x.index_copy_(1, tensor({2, 0}), tensor({{7.0, 8.0}, {9.0, 10.0}}));
  EXPECT_THAT(read(x), ElementsAre(8, 1, 7, 10, 4, 9));
  x.fill_(tensor(2.0));
  EXPECT_THAT(read(x), ElementsAre(2, 2, 2, 2, 2, 2));
  EXPECT_THAT(read(x.bernoulli_(1)), ElementsAre(1, 1, 1, 1, 1, 1));
}

}  // namespace
}  // namespace binade
