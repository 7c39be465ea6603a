#include "binade/autograd/grad.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/autograd/autograd_meta.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/recompute.h"
#include "binade/ops/reduce/reduce.h"
#include "support/tensors.h"

namespace binade {
namespace {

using autograd::grad;
using test::leaf;
using test::read;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Grad, LeavesEveryGradientAlone) {
  const Tensor x = leaf({1, 2}, {2}), w = leaf({3, 4}, {2});
  sum(x * w).backward();
  const std::vector<Tensor> found = grad({sum(x * x * w)}, {x});
  EXPECT_THAT(read(found[0]), ElementsAre(6, 16));
  EXPECT_THAT(read(x.grad()), ElementsAre(3, 4)) << "of the backward before";
  EXPECT_THAT(read(w.grad()), ElementsAre(1, 2));
  EXPECT_THAT(read(grad({sum(x * x * w)}, {w, x})[0]), ElementsAre(1, 4));
}

TEST(Grad, ReachesResultsOfOps) {
  const Tensor x = leaf({1, 2}, {2});
  const Tensor y = x * 2, z = sum(y * y);
  const std::vector<Tensor> found = grad({z}, {y, x, z}, {.retain = RetainGraph::yes});
  EXPECT_THAT(read(found[0]), ElementsAre(4, 8));
  EXPECT_THAT(read(found[1]), ElementsAre(8, 16));
  EXPECT_THAT(read(found[2]), ElementsAre(1));
  EXPECT_THAT(read(grad({z}, {y})[0]), ElementsAre(4, 8)) << "the graph was retained";
  EXPECT_FALSE(x.grad().defined());
}

TEST(Grad, SumsOverOutputsWithTheirSeeds) {
  const Tensor x = leaf({1, 2}, {2});
  const std::vector<Tensor> found =
      grad({x * 2, square(x)}, {x, x}, {.seeds = {ones({2}), tensor({10, 100}, {2})}});
  EXPECT_THAT(read(found[0]), ElementsAre(2 + 20, 2 + 400));
  EXPECT_THAT(read(found[1]), ElementsAre(2 + 20, 2 + 400));
  EXPECT_THAT(read(grad({x}, {x}, {.seeds = {ones({2})}})[0]), ElementsAre(1, 1));
  EXPECT_FALSE(x.grad().defined());
}

TEST(Grad, BackwardStillWorksAfterIt) {
  const Tensor x = leaf({1, 2}, {2}), w = leaf({3, 4}, {2});
  const Tensor loss = sum(x * w);
  grad({loss}, {x}, {.retain = RetainGraph::yes});
  loss.backward();
  EXPECT_THAT(read(x.grad()), ElementsAre(3, 4));
  EXPECT_THAT(read(w.grad()), ElementsAre(1, 2));
}

TEST(Grad, ReleasesWhatItWalkedUnlessRetained) {
  const Tensor x = leaf({1, 2}, {2});
  const Tensor loss = sum(x * x);
  EXPECT_THAT(read(grad({loss}, {x})[0]), ElementsAre(2, 4));
  EXPECT_THAT(test::error_of([&] { grad({loss}, {x}); }),
              HasSubstr("expected a graph not walked before"));
}

TEST(Grad, SaysWhatItCannotDo) {
  const Tensor x = leaf({1, 2}, {2}), other = leaf({1}, {1});
  const auto error_of = [&](const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                            const autograd::GradOptions& options = {}) {
    return test::error_of([&] { grad(outputs, inputs, options); });
  };
  EXPECT_THAT(
      error_of({sum(x)}, {x}, {.create_graph = true}),
      HasSubstr("create_graph: expected false, found true; double backward is not supported"));
  EXPECT_THAT(
      error_of({sum(x)}, {other}),
      HasSubstr("inputs: expected tensors that the outputs depend on, found input 0, [1] f32"));
  EXPECT_FALSE(grad({sum(x)}, {other}, {.allow_unused = true})[0].defined());
  EXPECT_THAT(error_of({sum(x)}, {ones({2})}), HasSubstr("inputs: expected tensors that require"));
  EXPECT_THAT(error_of({ones({})}, {x}), HasSubstr("outputs: expected tensors that require"));
  EXPECT_THAT(error_of({x * 2}, {x}), HasSubstr("expected one element"));
  EXPECT_THAT(error_of({sum(x)}, {x}, {.seeds = {ones({}), ones({})}}), HasSubstr("seeds"));
  const Tensor y = checkpoint([](std::span<const Tensor> in) { return sum(in[0]); }, {x});
  EXPECT_THAT(error_of({y}, {x}), HasSubstr("a graph without recompute"));
}

TEST(RetainGrad, KeepsTheGradientOfAResult) {
  const Tensor x = leaf({1, 2}, {2});
  const Tensor y = x * 3, z = sum(square(y));
  EXPECT_FALSE(y.grad().defined());
  y.retain_grad();
  x.retain_grad();
  z.backward({}, RetainGraph::yes);
  EXPECT_THAT(read(y.grad()), ElementsAre(6, 12));
  EXPECT_THAT(read(x.grad()), ElementsAre(18, 36));
  z.backward();
  EXPECT_THAT(read(y.grad()), ElementsAre(12, 24)) << "it accumulates";
  y.zero_grad();
  EXPECT_FALSE(y.grad().defined());
  EXPECT_THAT(test::error_of([] { ones({2}).retain_grad(); }),
              HasSubstr("retain_grad: tensor: expected one that requires a gradient"));
}

TEST(RetainGrad, SeesTheGradientAfterItsHooks) {
  const Tensor x = leaf({1, 2}, {2});
  const Tensor y = x * 3;
  y.retain_grad();
  autograd::on_gradient(y, [](const Tensor& g) { return g * 10; });
  sum(y).backward();
  EXPECT_THAT(read(y.grad()), ElementsAre(10, 10));
}

TEST(Grad, RunsTheHooksOfLeavesAndKeepsTheirGradients) {
  const Tensor x = leaf({1, 2}, {2}), w = leaf({3, 4}, {2});
  for (const Tensor& hooked : {x, w}) {
    hooked.set_grad(ones({2}));
    autograd::on_gradient(hooked, [](const Tensor& g) { return g * 10.0; });
  }
  EXPECT_THAT(read(grad({sum(x * w)}, {x})[0]), ElementsAre(30, 40));
  EXPECT_THAT(read(x.grad()), ElementsAre(1, 1));
  EXPECT_THAT(read(w.grad()), ElementsAre(1, 1));
}

}  // namespace
}  // namespace binade
