#include "binade/nn/module.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <sstream>

#include "binade/binade.h"
#include "support/error_of.h"

namespace binade::nn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Two layers, a buffer and its own parameter.
class Pair : public Layer {
 public:
  explicit Pair(Placement placement = {})
      : first({.in = 3, .out = 4}, placement),
        second({.in = 4, .out = 2, .bias = false}, placement) {
    own = ones({2}, placement.dtype, placement.device);
    count = zeros({1}, DType::f32, placement.device);
    add_parameter("own", own);
    add_buffer("count", count);
    add_child("first", first);
    add_child("second", second);
  }

  Linear first, second;
  Tensor own, count;

 protected:
  Tensor forward(const Tensor& x) override { return second(first(x)) * own; }
};

std::vector<std::string> names_of(const std::vector<std::pair<std::string, Tensor>>& named) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : named) names.push_back(name);
  return names;
}

TEST(Module, NamesArePathsInTheOrderOfRegistration) {
  Pair module;
  EXPECT_THAT(names_of(module.named_parameters()),
              ElementsAre("own", "first.weight", "first.bias", "second.weight"));
  EXPECT_THAT(names_of(module.named_buffers()), ElementsAre("count"));
  std::vector<std::string> modules;
  for (const auto& [name, child] : module.named_modules()) modules.push_back(name);
  EXPECT_THAT(modules, ElementsAre("", "first", "second"));
  EXPECT_EQ(module.parameter_count(), 2 + 12 + 4 + 8);
  for (const Tensor& parameter : module.parameters()) {
    EXPECT_TRUE(parameter.requires_grad() && parameter.is_leaf());
  }
  EXPECT_FALSE(module.count.requires_grad());
}

TEST(Module, OpsKnowTheModuleTheyRunFor) {
  class Outer : public Layer {
   public:
    Outer() { add_child("inner", inner); }
    Pair inner;

   protected:
    Tensor forward(const Tensor& x) override { return inner(x); }
  };
  Outer outer;
  std::vector<std::string> paths;
  for (const amp::TracedOp& op : amp::explain([&] { outer(ones({1, 3})); }))
    paths.push_back(op.module + " " + std::string(name(op.op)));
  EXPECT_THAT(paths, ElementsAre("inner.first linear", "inner.second linear", "inner mul"));
}

TEST(Module, TrainAndEvalReachEveryModule) {
  Pair module;
  EXPECT_TRUE(module.second.training());
  module.eval();
  EXPECT_FALSE(module.training() || module.first.training() || module.second.training());
  module.train();
  EXPECT_TRUE(module.training() && module.first.training() && module.second.training());
}

TEST(Module, ToConvertsParametersAndDropsGradients) {
  Pair module;
  const std::vector<double> before = to_vector(module.first.weight);
  sum(module(ones({2, 3}))).backward();
  EXPECT_TRUE(module.own.grad().defined());
  module.to(DType::bf16);
  for (const auto& [name, parameter] : module.named_parameters()) {
    EXPECT_EQ(parameter.dtype(), DType::bf16) << name;
    EXPECT_TRUE(parameter.requires_grad() && parameter.is_leaf()) << name;
    EXPECT_FALSE(parameter.grad().defined()) << name;
    EXPECT_EQ(parameter.grad_dtype(), DType::f32) << name;
    EXPECT_EQ(parameter.storage()->category(), memory::Category::parameters) << name;
  }
  EXPECT_EQ(module.count.dtype(), DType::f32);
  EXPECT_EQ(to_vector(module.first.weight), to_vector(cast(tensor(before, {4, 3}), DType::bf16)));
  sum(module(ones({2, 3}, DType::bf16))).backward();
  EXPECT_EQ(module.own.grad().dtype(), DType::f32);
  EXPECT_THAT(test::error_of([&] { module.to(DType::e4m3); }), HasSubstr("found e4m3"));
  EXPECT_THROW(module.to(DType::i64), Error);
}

TEST(Module, ToMovesParametersAndBuffers) {
  Pair module;
  module.to(Device::meta());
  for (const auto& [name, parameter] : module.named_parameters())
    EXPECT_TRUE(parameter.device().is_meta() && parameter.requires_grad()) << name;
  EXPECT_TRUE(module.count.device().is_meta());
  EXPECT_EQ(module(zeros({5, 3}, DType::f32, Device::meta())).shape(), (Shape{5, 2}));
}

TEST(Module, ZeroGradForgets) {
  Pair module;
  sum(module(ones({2, 3}))).backward();
  module.zero_grad();
  for (const Tensor& parameter : module.parameters()) EXPECT_FALSE(parameter.grad().defined());
}

TEST(StateDict, SharesAndLoadsCopies) {
  Pair module, other;
  const StateDict state = module.state_dict();
  ASSERT_EQ(state.size(), 5u);
  fill_(state.at("own"), 7);
  EXPECT_THAT(to_vector(module.own), ElementsAre(7, 7));
  EXPECT_FALSE(state.at("own").requires_grad());
  other.load_state_dict(state);
  EXPECT_EQ(to_vector(other.first.weight), to_vector(module.first.weight));
  fill_(state.at("own"), 8);
  EXPECT_THAT(to_vector(other.own), ElementsAre(7, 7));
}

TEST(StateDict, ConvertsTypes) {
  Pair module, narrow({Device::cpu(), DType::bf16});
  narrow.load_state_dict(module.state_dict());
  EXPECT_EQ(to_vector(narrow.first.weight), to_vector(cast(module.first.weight, DType::bf16)));
  module.load_state_dict(narrow.state_dict());
  EXPECT_EQ(to_vector(module.first.weight), to_vector(narrow.first.weight));
}

TEST(StateDict, OneErrorNamesEveryDifferenceAndNothingChanges) {
  Pair module;
  const std::vector<double> before = to_vector(module.second.weight);
  StateDict state;
  for (const auto& [name, tensor] : module.state_dict()) state[name] = zeros(tensor.shape());
  state.erase("count");
  state["first.weight"] = zeros({3, 4});  // as many elements, transposed
  state["first.bias"] = zeros({5});
  state["own"] = Tensor();
  state["third.weight"] = zeros({1});
  EXPECT_THAT(
      test::error_of([&] { module.load_state_dict(state); }),
      AllOf(HasSubstr("missing: count"), HasSubstr("first.bias: expected [4], found [5] f32"),
            HasSubstr("first.weight: expected [4, 3], found [3, 4] f32"),
            HasSubstr("own: expected [2], found no tensor"), HasSubstr("these differences\n  "),
            HasSubstr("\n  not in this model: third.weight"), Not(HasSubstr("second")),
            Not(HasSubstr("\\x"))));
  EXPECT_EQ(to_vector(module.second.weight), before);
  EXPECT_THAT(test::error_of([&] { module.load_state_dict(state, false); }),
              AllOf(HasSubstr("first.bias"), Not(HasSubstr("count"))));
  state.erase("first.weight");
  state.erase("first.bias");
  state.erase("own");
  module.load_state_dict(state, false);
  EXPECT_THAT(to_vector(module.second.weight), ::testing::Each(0.0));
}

// --- hooks ---

TEST(ForwardHooks, SeeAndReplaceInputsAndOutputs) {
  Linear layer(3, 2);
  const Tensor x = randn({4, 3}, {1, 1});
  const auto plain = to_vector(layer(x));
  std::vector<std::string> order;
  Tensor seen;
  HookHandle first = layer.register_forward_pre_hook([&](Layer& of, const Tensor& input) {
    EXPECT_EQ(&of, &layer);
    order.push_back("before");
    return input * 0;
  });
  HookHandle second =
      layer.register_forward_hook([&](Layer&, const Tensor& input, const Tensor& output) {
        order.push_back("after");
        EXPECT_EQ(to_vector(input), std::vector<double>(12, 0.0));
        seen = output;
        return Tensor();  // leaves the output
      });
  HookHandle third = layer.register_forward_hook(
      [&](Layer&, const Tensor&, const Tensor& output) { return output + 1; });
  const Tensor y = layer(x);
  EXPECT_THAT(order, ElementsAre("before", "after"));
  EXPECT_EQ(to_vector(y), to_vector(seen + 1));
  first.remove();
  third.remove();
  third.remove();
  second.remove();
  EXPECT_EQ(to_vector(layer(x)), plain);
  EXPECT_EQ(order.size(), 2u);
}

TEST(ForwardHooks, TakePartInTheGradient) {
  Linear layer(3, 2);
  layer.register_forward_hook([](Layer&, const Tensor&, const Tensor& y) { return y * 3; });
  sum(layer(ones({1, 3}))).backward();
  EXPECT_THAT(to_vector(layer.bias.grad()), ElementsAre(3, 3));
}

TEST(ForwardHooks, MayRemoveThemselvesAndOutliveTheirLayer) {
  auto layer = std::make_unique<Linear>(3, 2);
  int calls = 0;
  HookHandle once([] {});
  once = layer->register_forward_hook([&](Layer&, const Tensor&, const Tensor&) {
    ++calls;
    once.remove();
    return Tensor();
  });
  HookHandle other =
      layer->register_forward_pre_hook([](Layer&, const Tensor&) { return Tensor(); });
  (*layer)(ones({1, 3}));
  (*layer)(ones({1, 3}));
  EXPECT_EQ(calls, 1);
  layer.reset();
  other.remove();
}

// Layers inside of other modules run theirs, too.
TEST(ForwardHooks, RunWhereALayerIsUsed) {
  Pair module;
  std::vector<Shape> shapes;
  module.first.register_forward_hook([&](Layer&, const Tensor&, const Tensor& y) {
    shapes.push_back(y.shape());
    return Tensor();
  });
  module(zeros({5, 3}));
  EXPECT_THAT(shapes, ElementsAre(Shape{5, 4}));
}

// --- printing ---

TEST(Module, PrintsATreeWithItsParameters) {
  const Pair module;
  std::ostringstream out;
  out << module;
  EXPECT_EQ(out.str(),
            "Pair, 26 parameters\n"
            "  first: Linear(3, 4), 16 parameters\n"
            "  second: Linear(4, 2, no bias), 8 parameters\n");
}

TEST(Module, PrintsModelsOfAnyDepth) {
  const ResNet model({.channels = 1, .widths = {4}, .blocks = {1}, .classes = 3}, Device::meta());
  std::ostringstream out;
  out << model;
  EXPECT_THAT(out.str(), HasSubstr("ResNet, "));
  EXPECT_THAT(out.str(),
              HasSubstr("\n  conv1: Conv2d(1, 4, kernel 7 x 7, stride 2, padding 3), 196 "
                        "parameters\n"));
  EXPECT_THAT(out.str(), HasSubstr("\n    bn1: BatchNorm(4), 8 parameters\n"));
}

}  // namespace
}  // namespace binade::nn
