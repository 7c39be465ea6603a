#include "binade/ops/in_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/autograd/grad_mode.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/shape.h"
#include "support/tensors.h"

// Writes into tensors as LibTorch's: into memory and into the graph. Expected gradients are derived
// by hand.
namespace binade {
namespace {

using test::error_of;
using test::leaf;
using test::read;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(RecordedWrites, OfWholeTensorsReachTheirSource) {
  const Tensor w = leaf({1, 2}, {2});
  const Tensor copied = zeros({2}), added = full({2}, 3);
  copy_(copied, w * 2);
  add_(added, w * w, 0.5);
  sum(copied * copied + added).backward();  // 4 w^2 + 3 + w^2 / 2
  EXPECT_THAT(read(w.grad()), ElementsAre(9, 18));
  EXPECT_THAT(read(copied), ElementsAre(2, 4));
  EXPECT_THAT(read(added), ElementsAre(3.5, 5));
}

TEST(RecordedWrites, OfViewsReachTheBase) {
  const Tensor w = leaf({1, 2}, {2});
  const Tensor x = zeros({3, 2});
  Tensor v = x[0];
  v += w;
  x[1] += w * 3;
  x[2] = w * w;
  EXPECT_THAT(read(x), ElementsAre(1, 2, 3, 6, 1, 4));
  EXPECT_TRUE(x.requires_grad() && v.requires_grad());
  sum(x * tensor({1, 2, 3, 4, 5, 6}, {3, 2})).backward({}, RetainGraph::yes);
  EXPECT_THAT(read(w.grad()), ElementsAre(1 + 9 + 10, 2 + 12 + 24));
  w.zero_grad();
  sum(v * 7).backward();
  EXPECT_THAT(read(w.grad()), ElementsAre(7, 7));
}

TEST(RecordedWrites, OfTheBaseReachEarlierViews) {
  const Tensor w = leaf({1, 2, 3, 4}, {2, 2});
  Tensor x = zeros({2, 2});
  const Tensor column = transpose(x, 0, 1)[1], flat = reshape(x, {4}),
               repeated = expand(unsqueeze(x, 0), {3, 2, 2});
  x += w * 2;
  EXPECT_THAT(read(column), ElementsAre(4, 8));
  sum(column).backward({}, RetainGraph::yes);
  EXPECT_THAT(read(w.grad()), ElementsAre(0, 2, 0, 2));
  w.zero_grad();
  sum(flat * tensor({1, 10, 100, 1000}, {4})).backward({}, RetainGraph::yes);
  EXPECT_THAT(read(w.grad()), ElementsAre(2, 20, 200, 2000));
  w.zero_grad();
  sum(repeated).backward();
  EXPECT_THAT(read(w.grad()), Each(6));
}

TEST(RecordedWrites, CutOffWhatTheyReplace) {
  const Tensor w = leaf({1, 2, 3}, {3}), u = leaf({5}, {1});
  const Tensor x = w * 2;
  copy_(slice(x, 0, 1, 2), u);
  index(x, {2}) = 9;
  EXPECT_THAT(read(x), ElementsAre(2, 5, 9));
  sum(x * tensor({1.0, 10.0, 100.0})).backward();
  EXPECT_THAT(read(w.grad()), ElementsAre(2, 0, 0));
  EXPECT_THAT(read(u.grad()), ElementsAre(10));
  const Tensor whole = w * 2;
  fill_(whole, 1);
  EXPECT_TRUE(whole.requires_grad());
  w.zero_grad();
  sum(whole).backward();
  EXPECT_THAT(read(w.grad()), Each(0));
}

TEST(RecordedWrites, KeepTheOperandsOfProducts) {
  const Tensor w = leaf({2, 3}, {2}), u = leaf({4, 8}, {2});
  Tensor x = w * 1;
  x *= u;  // w u
  x *= x;  // (w u)^2
  x /= u;  // w^2 u
  EXPECT_THAT(read(x), ElementsAre(16, 72));
  sum(x).backward();
  EXPECT_THAT(read(w.grad()), ElementsAre(16, 48));
  EXPECT_THAT(read(u.grad()), ElementsAre(4, 9));
}

TEST(RecordedWrites, ConvertToTheTypeOfTheTarget) {
  const Tensor w = leaf({1, 2}, {2});
  Tensor x = zeros({2, 2}, DType::f64);
  x += w;
  x[0] = w * 4;
  EXPECT_EQ(x.dtype(), DType::f64);
  sum(x).backward();
  EXPECT_THAT(read(w.grad()), ElementsAre(5, 5));
  Tensor whole = zeros({2}, DType::i64);
  copy_(whole, w * 2);
  EXPECT_FALSE(whole.requires_grad());
}

TEST(RecordedWrites, AtIndicesAndMasks) {
  const Tensor w = leaf({1, 2}, {2});
  const Tensor x = w * 1;
  const Tensor base = zeros({3});
  index_put_(base, {tensor({2, 0})}, w * 2);
  index_put_(x, {x > 1.5}, 0);
  EXPECT_THAT(read(base), ElementsAre(4, 0, 2));
  (sum(base * tensor({1.0, 10.0, 100.0})) + sum(x)).backward();
  EXPECT_THAT(read(w.grad()), ElementsAre(200 + 1, 2));
}

TEST(RecordedWrites, InALoopFillABuffer) {
  const Tensor w = leaf({0.5}, {1});
  const Tensor x = zeros({5, 1});
  Tensor h = w * 1;
  for (int64_t i = 0; i < 5; ++i) {
    x[i] = h;
    h = h * w;
  }
  sum(x).backward();  // 1 + 2 w + 3 w^2 + 4 w^3 + 5 w^4
  EXPECT_THAT(read(w.grad()), ElementsAre(1 + 1 + 0.75 + 0.5 + 0.3125));
}

TEST(RecordedWrites, OfOverlappingPartsOfOneGraph) {
  const Tensor w = leaf({1, 2, 3, 4}, {4});
  Tensor x = w * 1;
  slice(x, 0, 1, 4) += slice(x, 0, 0, 3);
  EXPECT_THAT(read(x), ElementsAre(1, 3, 5, 7));
  sum(x * tensor({1.0, 10.0, 100.0, 1000.0})).backward();
  EXPECT_THAT(read(w.grad()), ElementsAre(11, 110, 1100, 1000));
}

TEST(RecordedWrites, AreSeenBySavedValues) {
  const Tensor w = leaf({1, 2}, {2});
  Tensor x = exp(w);  // its backward needs the result
  x += 1;
  EXPECT_THAT(error_of([&] { sum(x).backward(); }), HasSubstr("unchanged since the forward"));
  Tensor y = w * 1;
  const Tensor square = y * y;
  y[0] = 3;
  EXPECT_THAT(error_of([&] { sum(square).backward(); }), HasSubstr("unchanged since the forward"));
}

TEST(RecordedWrites, LeaveDetachedTensorsOutOfTheGraph) {
  const Tensor w = leaf({1, 2}, {2});
  Tensor x = w * 1;
  const Tensor detached = x.detach();
  x += 1;
  EXPECT_THAT(read(detached), ElementsAre(2, 3));
  EXPECT_FALSE(detached.requires_grad());
  const NoGrad no_grad;
  detached[0] = 7;
  EXPECT_THAT(read(x), ElementsAre(7, 3));
}

TEST(RecordedWrites, OfPartsOutliveTheirBase) {
  const Tensor w = leaf({1, 2, 3, 4}, {4});
  std::vector<Tensor> halves = chunk(w * 1, 2);
  const Tensor first = halves[0][1];
  halves[0] *= 10;
  sum(first + halves[1]).backward();  // 2 * 10 w[1] + w[2] + w[3]
  EXPECT_THAT(read(first), ElementsAre(20));
  EXPECT_THAT(read(w.grad()), ElementsAre(0, 20, 1, 1));
}

TEST(RecordedWrites, RefuseLeavesAndTheirViews) {
  Tensor w = leaf({1, 2}, {2});
  EXPECT_THAT(error_of([&] { copy_(w, zeros({2})); }),
              HasSubstr("copy_: x: expected no leaf that requires a gradient, found [2] f32 cpu"));
  EXPECT_THAT(error_of([&] { w *= 2; }), HasSubstr("mul_: x: expected no leaf"));
  EXPECT_THAT(error_of([&] { w[0] += 1; }), HasSubstr("add_: x: expected no view of a leaf"));
  EXPECT_THAT(error_of([&] { fill_(w[0], 1); }), HasSubstr("fill_: x: expected no view of a leaf"));
  EXPECT_THAT(error_of([&] { index_put_(w, {tensor({0})}, 1); }), HasSubstr("index_put_: x"));
  const Tensor made_later = zeros({2});
  Tensor view = made_later[0];
  Tensor(made_later).set_requires_grad();
  EXPECT_THAT(error_of([&] { view += 1; }), HasSubstr("no view of a leaf"));
  {
    const NoGrad no_grad;
    w[0] += 1;
    view = w[1];
  }
  EXPECT_THAT(read(w), ElementsAre(2, 2));
  EXPECT_THAT(error_of([&] { view += 1; }), HasSubstr("no view of a leaf"));
}

TEST(RecordedWrites, RefuseViewsMadeUnderNoGrad) {
  const Tensor w = leaf({1, 2}, {2});
  const Tensor x = w * 1, y = zeros({2});
  Tensor of_graph, plain;
  {
    const NoGrad no_grad;
    of_graph = x[0];
    plain = y[0];
  }
  EXPECT_THAT(error_of([&] { of_graph += 1; }), HasSubstr("no view that was made under NoGrad"));
  EXPECT_THAT(error_of([&] { plain += w[0]; }), HasSubstr("no view that was made under NoGrad"));
  plain += 1;
  EXPECT_THAT(read(y), ElementsAre(1, 0));
}

TEST(Writes, RefuseExpandedViews) {
  Tensor x = expand(zeros({1, 3}), {2, 3});
  EXPECT_THAT(error_of([&] { x += 1; }),
              HasSubstr("add_: x: expected elements with memory of their own, found [2, 3] f32 cpu "
                        "with strides [0, 1]"));
  EXPECT_THAT(error_of([&] { copy_(x, ones({2, 3})); }), HasSubstr("clone()"));
  EXPECT_THAT(error_of([&] { fill_(x, 1); }), HasSubstr("fill_: x"));
  EXPECT_THAT(error_of([&] { add_(x, ones({2, 3})); }), HasSubstr("add_: x"));
  x[0] += 1;
  EXPECT_THAT(read(x), Each(1));
}

TEST(Writes, ReadOverlappingSourcesFirst) {
  const Tensor x = arange(6, DType::f32);
  copy_(slice(x, 0, 1, 6), slice(x, 0, 0, 5));
  EXPECT_THAT(read(x), ElementsAre(0, 0, 1, 2, 3, 4));
  slice(x, 0, 1, 6) += slice(x, 0, 0, 5);
  EXPECT_THAT(read(x), ElementsAre(0, 0, 1, 3, 5, 7));
  add_(slice(x, 0, 1, 6), slice(x, 0, 0, 5), 2);
  EXPECT_THAT(read(x), ElementsAre(0, 0, 1, 5, 11, 17));
  Tensor matrix = tensor({1, 2, 3, 4}, {2, 2});
  copy_(matrix, transpose(matrix, 0, 1));
  EXPECT_THAT(read(matrix), ElementsAre(1, 3, 2, 4));
  matrix -= matrix[1];
  EXPECT_THAT(read(matrix), ElementsAre(-1, -1, 0, 0));
}

}  // namespace
}  // namespace binade
