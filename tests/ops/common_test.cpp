#include "binade/ops/common.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "binade/autograd/anomaly.h"
#include "binade/autograd/autograd_meta.h"
#include "binade/autograd/grad.h"
#include "binade/autograd/grad_mode.h"
#include "binade/autograd/op_observer.h"
#include "binade/backend/backend.h"
#include "binade/backend/gpu.h"
#include "binade/base/function_ref.h"
#include "binade/ops/elementwise/activation.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/matmul/linear.h"
#include "binade/ops/shape/shape.h"
#include "support/tensors.h"

namespace binade::ops {
namespace {

using testing::ElementsAre;

TEST(Require, SaysWhatWasExpectedAndFound) {
  const Tensor x = zeros({2, 3}), whole = zeros({2}, DType::i64),
               meta = Tensor::empty({2}, DType::f32, Device::meta());
  EXPECT_EQ(test::error_of([] { require_defined("op", "x", Tensor()); }),
            "op: x: expected a tensor, found none");
  EXPECT_EQ(test::error_of([&] { require_compute("op", "x", whole); }),
            "op: x: expected f64, f32, f16 or bf16, found [2] i64 cpu; cast() it");
  EXPECT_EQ(test::error_of([&] { require_index("op", "index", x); }),
            "op: index: expected i64 or i32, found [2, 3] f32 cpu");
  EXPECT_EQ(test::error_of([&] { require_rank("op", "x", x, 3); }),
            "op: x: expected 3 dimensions, found [2, 3] f32 cpu");
  EXPECT_EQ(test::error_of([&] { require_shape("op", "x", x, {3}); }),
            "op: x: expected [3], found [2, 3] f32 cpu");
  EXPECT_EQ(test::error_of([&] { require_same_dtype("op", x, whole); }),
            "op: inputs: expected one dtype, found f32 and i64; cast() one of them");
  EXPECT_EQ(test::error_of([] { require_finite("op", "p", 1 / 0.0); }),
            "op: p: expected a finite number, found inf");
  EXPECT_EQ(test::error_of([] { require_between("op", "p", 1.5, 0, 1); }),
            "op: p: expected 0 to 1, found 1.5");
  EXPECT_EQ(test::error_of([&] { require_device("op", "index", meta, x); }),
            "op: index: expected a tensor on cpu, found [2] f32 meta; move it with to(x, device)");
  EXPECT_EQ(test::error_of([&] { require_classes("op", whole, 0, -100); }),
            "op: target: expected classes from 0 to -1 or -100, found 0 at element 0");
  require_between("op", "p", 1, 0, 1);
  require_classes("op", whole, 1, -100);
  require_classes("op", Tensor::empty({2}, DType::i64, Device::meta()), 1, -100);
}

TEST(Layout, DenseCopiesOnlyWhatIsNot) {
  const Tensor x = tensor({1, 2, 3, 4}, {2, 2});
  EXPECT_TRUE(dense(x).same_as(x));
  const Tensor transposed = dense(x.strided({2, 2}, {1, 2}, 0));
  EXPECT_TRUE(transposed.is_dense());
  EXPECT_THAT(test::read(transposed), ElementsAre(1, 3, 2, 4));
  EXPECT_FALSE(dense(Tensor()).defined());
  EXPECT_TRUE(converted(x, DType::f32).same_as(x));
  EXPECT_EQ(converted(x, DType::f16).dtype(), DType::f16);
  EXPECT_EQ(viewed(x, {4}).raw_data(), x.raw_data());
}

TEST(Layout, RowsTimesWidth) {
  const auto whole = rows_of({2, 3, 5});
  EXPECT_EQ(whole.rows, 6);
  EXPECT_EQ(whole.width, 5);
  const auto two = rows_of({2, 3, 5}, 2);
  EXPECT_EQ(two.rows, 2);
  EXPECT_EQ(two.width, 15);
  EXPECT_EQ(rows_of({0, 5}).rows, 0);
  EXPECT_EQ(batch_of(zeros({2, 3, 4, 5})), (Shape{2, 3}));
}

// x * 2, computed again on demand.
class Doubled final : public autograd::ResultRecompute {
 public:
  explicit Doubled(const Tensor& x) : x_(x) {}
  Tensor compute(const Tensor& gradient) override {
    gradients.push_back(gradient);
    const NoGrad plain;
    return x_ * 2.0;
  }
  std::vector<Tensor> gradients;  // of each call

 private:
  Tensor x_;
};

TEST(SavedInput, IsComputedAgainInsteadOfKept) {
  const Tensor x = test::leaf({1, 2, 3, 4}, {2, 2}), weight = test::leaf({5, 6}, {1, 2});
  const auto again = std::make_shared<Doubled>(x.detach());
  Tensor doubled = x * 2.0;
  offer_recompute(doubled, again);
  const int64_t before = memory::allocated();
  Tensor y = linear(doubled, weight);
  doubled = {};
  EXPECT_LT(memory::allocated(), before) << "only y is new, and the input is gone";
  y.backward(tensor({1, 10}, {2, 1}));
  EXPECT_THAT(test::read(weight.grad()), ElementsAre(2 * 1 + 20 * 3, 2 * 2 + 20 * 4));
  EXPECT_THAT(test::read(x.grad()), ElementsAre(10, 12, 100, 120));
  ASSERT_EQ(again->gradients.size(), 1U);
  EXPECT_THAT(test::read(again->gradients[0]), ElementsAre(5, 6, 50, 60)) << "all of it";
}

TEST(SavedInput, GetsNoGradientThatIsIncomplete) {
  const Tensor x = test::leaf({1, 2}, {1, 2}), weight = test::leaf({3, 4}, {1, 2});
  const auto again = std::make_shared<Doubled>(x.detach());
  const Tensor doubled = x * 2.0;
  offer_recompute(doubled, again);
  (linear(doubled, weight) + linear(doubled, weight)).backward();
  EXPECT_THAT(test::read(weight.grad()), ElementsAre(4, 8));
  EXPECT_THAT(test::read(x.grad()), ElementsAre(12, 16));
  ASSERT_EQ(again->gradients.size(), 2U);
  for (const Tensor& gradient : again->gradients) EXPECT_FALSE(gradient.defined());
}

TEST(SavedInput, GetsNoGradientThatAHookMayReplace) {
  const Tensor x = test::leaf({1, 2}, {1, 2}), weight = test::leaf({3, 4}, {1, 2});
  const auto again = std::make_shared<Doubled>(x.detach());
  const Tensor doubled = x * 2.0;
  offer_recompute(doubled, again);
  autograd::on_gradient(doubled, [](const Tensor&) { return ones({1, 2}); });
  linear(doubled, weight).backward();
  EXPECT_THAT(test::read(x.grad()), ElementsAre(2, 2));
  ASSERT_EQ(again->gradients.size(), 1U);
  EXPECT_FALSE(again->gradients[0].defined());
}

// x * 2. Its gradient, passed on as a matmul, becomes ones here instead of the matmul's result.
class DoubledFromMatmul final : public autograd::ResultRecompute {
 public:
  explicit DoubledFromMatmul(const Tensor& x) : x_(x) {}
  Tensor compute(const Tensor&) override {
    const NoGrad plain;
    return x_ * 2.0;
  }
  Tensor compute_from_matmul(const Tensor& a, const Tensor& b, const Tensor& gradient,
                             const Tensor& kept) override {
    EXPECT_EQ(a.shape(), (Shape{1, 1}));
    EXPECT_EQ(b.shape(), (Shape{1, 2}));
    backend::of(gradient).elementwise.fill(gradient, 1);
    EXPECT_EQ(kept.defined(), keeps_result);
    return keeps_result ? kept : compute(gradient);
  }

 private:
  Tensor x_;
};

// The gradient of x through linear(x * 2, [3, 4]): 6, 8, or 2, 2 if it was passed on as a matmul.
// `prepare` gets x * 2, `walk` the result.
std::vector<double> gradient_through(
    DType dtype, FunctionRef<void(const Tensor&)> prepare,
    FunctionRef<void(const Tensor&)> walk = [](const Tensor& y) { y.backward(); }) {
  const Tensor x = test::leaf({1, 2}, {1, 2}, dtype), weight = test::leaf({3, 4}, {1, 2}, dtype);
  const auto again = std::make_shared<DoubledFromMatmul>(x.detach());
  const Tensor doubled = x * 2.0;
  offer_recompute(doubled, again);
  prepare(doubled);
  walk(linear(doubled, weight));
  EXPECT_THAT(test::read(weight.grad()), ElementsAre(2, 4));
  return test::read(x.grad());
}

// A kept result is not computed again, and its gradient is passed on all the same.
TEST(SavedInput, PassesItsGradientOnIfItsResultIsKept) {
  const Tensor x = test::leaf({1, 2}, {1, 2}, DType::bf16),
               weight = test::leaf({3, 4}, {1, 2}, DType::bf16);
  const auto again = std::make_shared<DoubledFromMatmul>(x.detach());
  again->keeps_result = true;
  const Tensor doubled = x * 2.0;
  offer_recompute(doubled, again);
  linear(doubled, weight).backward();
  EXPECT_THAT(test::read(weight.grad()), ElementsAre(2, 4));
  EXPECT_THAT(test::read(x.grad()), ElementsAre(2, 2));
}

TEST(SavedInput, PassesItsGradientOnAsAMatmul) {
  EXPECT_THAT(gradient_through(DType::bf16, [](const Tensor&) {}), ElementsAre(2, 2));
  EXPECT_THAT(gradient_through(DType::f32, [](const Tensor&) {}), ElementsAre(6, 8))
      << "no device has such a kernel for f32";
}

struct NoOpObserver final : autograd::OpObserver {
  void forward(Op, std::span<const Tensor>, std::span<const Tensor>,
               std::span<const Tensor>) override {}
  void after_backward(const autograd::Node&, std::span<const Tensor>) override {}
};

TEST(SavedInput, HasAWholeGradientIfOtherCodeReadsItToo) {
  const auto nothing = [](const Tensor&) {};
  const auto backward = [](const Tensor& y) { y.backward(); };
  EXPECT_THAT(gradient_through(DType::bf16, [](const Tensor& x) { x.retain_grad(); }),
              ElementsAre(6, 8));
  EXPECT_THAT(gradient_through(DType::bf16,
                               [](const Tensor& x) {
                                 autograd::on_gradient(x, [](const Tensor&) { return Tensor(); });
                               }),
              ElementsAre(6, 8));
  EXPECT_THAT(gradient_through(DType::bf16, nothing,
                               [](const Tensor& y) { y.backward({}, RetainGraph::yes); }),
              ElementsAre(6, 8));
  NoOpObserver observer;
  EXPECT_THAT(gradient_through(DType::bf16, nothing,
                               [&](const Tensor& y) {
                                 const autograd::OpObserverScope observing(&observer);
                                 backward(y);
                               }),
              ElementsAre(6, 8));
  EXPECT_THAT(gradient_through(DType::bf16, nothing,
                               [&](const Tensor& y) {
                                 const autograd::DetectAnomaly detecting;
                                 backward(y);
                               }),
              ElementsAre(6, 8));
}

// The walk towards x * 2 ends there and returns its gradient.
TEST(SavedInput, HasAWholeGradientThatIsAskedFor) {
  const Tensor x = test::leaf({1, 2}, {1, 2}, DType::bf16),
               weight = test::leaf({3, 4}, {1, 2}, DType::bf16);
  const auto again = std::make_shared<DoubledFromMatmul>(x.detach());
  const Tensor doubled = x * 2.0;
  offer_recompute(doubled, again);
  const std::vector<Tensor> gradients =
      autograd::grad({linear(doubled, weight)}, {doubled, weight});
  EXPECT_THAT(test::read(gradients[0]), ElementsAre(3, 4));
  EXPECT_THAT(test::read(gradients[1]), ElementsAre(2, 4));
}

TEST(SavedInput, IsKeptIfItsOpIsGone) {
  const Tensor x = test::leaf({1, 2}, {1, 2}), weight = test::leaf({3, 4}, {1, 2});
  Tensor doubled = x * 2.0;
  offer_recompute(doubled, std::make_shared<Doubled>(x.detach()));  // nothing owns it
  linear(doubled, weight).backward();
  EXPECT_THAT(test::read(weight.grad()), ElementsAre(2, 4));
}

TEST(EarlyGradients, AreThoseOfOneUnchangedGradient) {
  EarlyGradients<int> early;
  const Tensor dy = zeros({2}), other = zeros({2});
  EXPECT_EQ(early.take(dy), std::nullopt);
  early.set(dy, 7);
  EXPECT_EQ(early.take(dy), 7);
  EXPECT_EQ(early.take(dy), std::nullopt) << "taken";
  early.set(dy, 7);
  EXPECT_EQ(early.take(other), std::nullopt);
  EXPECT_EQ(early.take(dy), std::nullopt) << "a gradient that was replaced does not come back";
  early.set(dy, 7);
  dy.bump_version();
  EXPECT_EQ(early.take(dy), std::nullopt) << "it was overwritten";
}

// The gradients of linear(f(x), weight) on a GPU, with f's result computed again, against those
// with its result kept: a leaf of its own.
void expect_gradients_of_a_kept_result(FunctionRef<Tensor(const Tensor&)> f, const Shape& shape,
                                       int64_t width) {
  const Device gpu = Device::cuda();
  const Tensor x = test::noise_leaf(shape, 1, DType::bf16, gpu),
               same_x = test::noise_leaf(shape, 1, DType::bf16, gpu),
               weight = test::noise_leaf({24, width}, 2, DType::bf16, gpu),
               same_weight = test::noise_leaf({24, width}, 2, DType::bf16, gpu),
               dy = test::noise({shape[0], 24}, 3, DType::bf16, gpu);
  linear(f(x), weight).backward(dy);

  const Tensor result = f(same_x);
  Tensor kept = result.detach();
  kept.set_requires_grad();
  kept.set_grad_dtype(DType::bf16);
  linear(kept, same_weight).backward(dy);
  result.backward(kept.grad());
  EXPECT_TRUE(test::same_bits(weight.grad(), same_weight.grad()));
  EXPECT_TRUE(test::same_bits(x.grad(), same_x.grad()));
}

TEST(RecomputedResultGpu, SwiGluHasTheBitsOfAKeptOne) {
  if (backend::gpus().empty()) GTEST_SKIP() << "no GPU";
  expect_gradients_of_a_kept_result([](const Tensor& x) { return swiglu(x); }, {33, 80}, 40);
}

// Matrices large enough for the kernel that computes the gradient before the activation in the
// matmul, against the same matmuls with an observer, for which the gradient is written. Only sums'
// order differs, so that elements may be rounded to a neighbor.
TEST(RecomputedResultGpu, GradientsThatAreNotWrittenAreThoseThatAre) {
  if (backend::gpus().empty()) GTEST_SKIP() << "no GPU";
  const Device gpu = Device::cuda();
  for (const bool gated : {false, true}) {
    const auto gradients = [&](autograd::OpObserver* observer) {
      const autograd::OpObserverScope observing(observer);
      const auto leaf = [&](const Shape& shape, uint64_t stream) {
        return test::noise_leaf(shape, stream, DType::bf16, gpu);
      };
      const Tensor x = leaf({5632, 64}, 1), up = leaf({gated ? 2560 : 1280, 64}, 2),
                   bias = leaf({gated ? 2560 : 1280}, 3), down = leaf({128, 1280}, 4);
      const Tensor hidden = linear(x, up, bias, gated ? Activation::none : Activation::gelu_tanh);
      linear(gated ? swiglu(hidden) : hidden, down)
          .backward(test::noise({5632, 128}, 5, DType::bf16, gpu));
      std::vector<std::vector<double>> result;
      for (const Tensor& leaf : {x, up, bias, down}) result.push_back(test::read(leaf.grad()));
      return result;
    };
    NoOpObserver observer;
    const auto found = gradients(nullptr), expected = gradients(&observer);
    for (size_t i = 0; i < found.size(); ++i) {
      double error = 0, norm = 0;
      for (size_t j = 0; j < found[i].size(); ++j) {
        error += std::pow(found[i][j] - expected[i][j], 2);
        norm += std::pow(expected[i][j], 2);
      }
      EXPECT_LE(std::sqrt(error), 0x1p-8 * std::sqrt(norm)) << "leaf " << i << " gated " << gated;
    }
  }
}

// A graph that is kept computes the same again: nothing that was saved is overwritten.
TEST(RecomputedResultGpu, AGraphCanBeWalkedTwice) {
  if (backend::gpus().empty()) GTEST_SKIP() << "no GPU";
  const Device gpu = Device::cuda();
  for (const bool gated : {false, true}) {
    const Tensor x = test::noise_leaf({32, 16}, 1, DType::f32, gpu),
                 up = test::noise_leaf({48, 16}, 2, DType::f32, gpu),
                 down = test::noise_leaf({8, gated ? 24 : 48}, 3, DType::f32, gpu);
    const Tensor hidden = linear(x, up, {}, gated ? Activation::none : Activation::gelu_tanh);
    const Tensor y = linear(gated ? swiglu(hidden) : hidden, down);
    const Tensor dy = test::noise({32, 8}, 4, DType::f32, gpu);
    y.backward(dy, RetainGraph::yes);
    const std::vector<double> once = test::read(up.grad());
    y.backward(dy);
    const std::vector<double> twice = test::read(up.grad());
    for (size_t i = 0; i < once.size(); ++i) EXPECT_EQ(twice[i], 2 * once[i]) << i;
  }
}

TEST(RecomputedResultGpu, SwiGluIsNotKeptForTheNextLayer) {
  if (backend::gpus().empty()) GTEST_SKIP() << "no GPU";
  const Device gpu = Device::cuda();
  const Tensor x = test::noise_leaf({256, 512}, 1, DType::bf16, gpu),
               weight = test::noise_leaf({8, 256}, 2, DType::bf16, gpu);
  const int64_t before = memory::allocated(gpu);
  const Tensor y = linear(swiglu(x), weight);
  EXPECT_EQ(memory::allocated(gpu) - before, 256 * 8 * 2) << "y alone";
}

// GPUs apply the activation before they round its argument, so a result computed again from the
// rounded one may differ in its last bit: the gradients agree to bf16's precision.
TEST(RecomputedResultGpu, AnActivationHasTheGradientsOfAComposite) {
  if (backend::gpus().empty()) GTEST_SKIP() << "no GPU";
  const Device gpu = Device::cuda();
  for (const Activation activation :
       {Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu}) {
    const auto gradients = [&](DType dtype, auto layer) {
      const auto leaf = [&](const Shape& shape, uint64_t stream) {
        Tensor values = cast(test::noise(shape, stream, DType::bf16, gpu), dtype);
        values.set_requires_grad();
        return values;
      };
      const Tensor x = leaf({64, 32}, 1), up = leaf({48, 32}, 2), bias = leaf({48}, 3),
                   down = leaf({16, 48}, 4);
      const Tensor dy = cast(test::noise({64, 16}, 5, DType::bf16, gpu), dtype);
      linear(layer(x, up, bias, activation), down).backward(dy);
      std::vector<std::vector<double>> result;
      for (const Tensor& leaf : {x, up, bias, down}) result.push_back(test::read(leaf.grad()));
      return result;
    };
    const auto found = gradients(DType::bf16, linear),
               exact = gradients(DType::f64, linear_composite);
    for (size_t i = 0; i < found.size(); ++i) {
      double error = 0, norm = 0;
      for (size_t j = 0; j < exact[i].size(); ++j) {
        error += std::pow(found[i][j] - exact[i][j], 2);
        norm += std::pow(exact[i][j], 2);
      }
      // Each element passes at most four roundings to bf16, of relative error 2^-9.
      EXPECT_LT(std::sqrt(error / norm), 4 * 0x1p-9) << "gradient " << i;
    }
  }
}

TEST(Composite, SwitchesAutocastOffAndIsListedOnce) {
  const auto trace = amp::explain([] {
    const amp::Autocast cast(DType::bf16);
    Composite call(Op::einsum, {ones({2}), Tensor()});
    EXPECT_EQ(call[0].dtype(), DType::bf16) << "cast by the policy of the whole";
    EXPECT_FALSE(call[1].defined());
    EXPECT_FALSE(amp::autocast_state().enabled);
    call.result(exp(call[0]));
  });
  ASSERT_EQ(trace.size(), 2u) << "what the op is made of is not listed";
  EXPECT_EQ(trace[0].op, Op::cast);
  EXPECT_EQ(trace[1].op, Op::einsum);
  EXPECT_FALSE(amp::autocast_state().enabled);
}

}  // namespace
}  // namespace binade::ops
