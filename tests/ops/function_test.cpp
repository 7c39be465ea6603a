#include "binade/ops/function.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/ops/create/copy.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/reduce/reduce.h"
#include "support/tensors.h"

namespace binade {
namespace {

using autograd::Function;
using autograd::FunctionContext;
using test::leaf;
using test::read;
using testing::ElementsAre;
using testing::HasSubstr;

// scale * x^3, with x^2 saved.
struct Cube : Function<Cube> {
  static Tensor forward(FunctionContext& context, const Tensor& x, double scale) {
    const Tensor squared = square(x);
    context.save({squared});
    context.numbers["scale"] = scale;
    return squared * x * scale;
  }
  static std::vector<Tensor> backward(FunctionContext& context, std::span<const Tensor> dy) {
    return {dy[0] * context.saved()[0] * (3 * context.numbers.at("scale"))};
  }
};

TEST(Function, SavesTensorsAndNumbers) {
  const Tensor x = leaf({1, 2}, {2});
  const Tensor y = Cube::apply(x, 0.5);
  EXPECT_THAT(read(y), ElementsAre(0.5, 4));
  sum(y * 2).backward();
  EXPECT_THAT(read(x.grad()), ElementsAre(3, 12));
  const NoGrad no_grad;
  EXPECT_FALSE(Cube::apply(x, 0.5).requires_grad());
}

// (a b, a + b); the gradient of b is asked about.
struct ProductAndSum : Function<ProductAndSum> {
  static std::vector<Tensor> forward(FunctionContext& context, const Tensor& a, const Tensor& b) {
    context.save({a, b});
    return {a * b, a + b};
  }
  static std::vector<Tensor> backward(FunctionContext& context, std::span<const Tensor> dy) {
    const std::vector<Tensor> saved = context.saved();
    const Tensor product = dy[0].defined() ? dy[0] : zeros_like(saved[0]);
    const Tensor total = dy[1].defined() ? dy[1] : zeros_like(saved[0]);
    return {product * saved[1] + total,
            context.needs_grad(1) ? product * saved[0] + total : Tensor()};
  }
};

TEST(Function, HasSeveralResults) {
  const Tensor a = leaf({2, 3}, {2}), b = leaf({5, 7}, {2});
  const std::vector<Tensor> both = ProductAndSum::apply(a, b);
  sum(both[0] + both[1] * 10).backward();
  EXPECT_THAT(read(a.grad()), ElementsAre(15, 17));
  EXPECT_THAT(read(b.grad()), ElementsAre(12, 13));
  a.zero_grad();
  sum(ProductAndSum::apply(a, b.detach())[1]).backward();
  EXPECT_THAT(read(a.grad()), ElementsAre(1, 1));
}

TEST(Function, SeesChangesOfWhatItSaved) {
  const Tensor x = leaf({1, 2}, {2}), factor = ones({2});
  const Tensor y = ProductAndSum::apply(x, factor)[0];
  fill_(factor, 3);
  EXPECT_THAT(test::error_of([&] { sum(y).backward(); }), HasSubstr("its data unchanged"));
}

struct Wrong : Function<Wrong> {
  static Tensor forward(FunctionContext&, const Tensor& x) { return x * 2; }
  static std::vector<Tensor> backward(FunctionContext&, std::span<const Tensor>) { return {}; }
};

TEST(Function, WantsAGradientForEachTensor) {
  const Tensor x = leaf({1, 2}, {2});
  EXPECT_EQ(test::error_of([&] { sum(Wrong::apply(x)).backward(); }),
            "Function: backward: expected a gradient for each of 1 tensor arguments, found 0");
}

TEST(Function, BackwardRunsUnderTheAutocastOfItsCall) {
  static bool inside = false;
  struct Probe : Function<Probe> {
    static Tensor forward(FunctionContext&, const Tensor& x) { return x * 1; }
    static std::vector<Tensor> backward(FunctionContext&, std::span<const Tensor> dy) {
      inside = amp::autocast_state().enabled;
      return {dy[0]};
    }
  };
  const Tensor x = leaf({1}, {1});
  const Tensor y = [&] {
    const amp::Autocast cast(DType::bf16);
    return Probe::apply(x);
  }();
  y.backward();
  EXPECT_TRUE(inside);
}

}  // namespace
}  // namespace binade
