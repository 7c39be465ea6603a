#include "binade/c/op_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>

#include "binade/c.h"
#include "binade/c/handles.h"
#include "c/op_calls.h"
#include "support/values.h"

// Every op of the C interface gives what the C++ function gives, with each input and option in its
// place.
namespace binade::c {
namespace {

Tensor through_c(const OpCall& call) {
  std::vector<bnd_tensor> wrapped;
  for (const Tensor& input : call.inputs) wrapped.push_back({input});
  std::vector<const bnd_tensor*> inputs;
  for (size_t i = 0; i < wrapped.size(); ++i)
    inputs.push_back(call.inputs[i].defined() ? &wrapped[i] : nullptr);
  std::vector<bnd_option> options;
  for (const Given& one : call.options) {
    options.push_back(one);
    if (one.kind == BND_INTS) {
      options.back().list = one.kept.data();
      options.back().count = one.kept.size();
    }
  }
  bnd_tensor* result = nullptr;
  EXPECT_EQ(bnd_op(call.op.c_str(), inputs.data(), inputs.size(), options.data(), options.size(),
                   &result),
            BND_OK)
      << bnd_last_error();
  const std::unique_ptr<bnd_tensor, void (*)(bnd_tensor*)> owned(result, bnd_tensor_free);
  return result == nullptr ? Tensor() : result->value;
}

// With random numbers of their own: not by value.
const std::set<std::string> drawn_ops = {"bernoulli", "dropout", "multinomial"};

TEST(COps, AreTheFunctionsOfTheLibrary) {
  std::set<std::string> called = drawn_ops;
  for (const auto& calls : {elementwise_calls(), unary_calls(), matmul_and_reduce_calls(),
                            shape_calls(), layer_calls(), loss_calls(), composed_calls()}) {
    for (const OpCall& call : calls) {
      std::string given;
      for (const Given& one : call.options) given += std::string(" ") + one.name;
      SCOPED_TRACE(call.op + given);
      called.insert(call.op);
      const Tensor found = through_c(call);
      ASSERT_TRUE(found.defined());
      EXPECT_EQ(found.dtype(), call.expected.dtype());
      EXPECT_EQ(found.shape(), call.expected.shape());
      EXPECT_THAT(test::read(found), ::testing::Pointwise(::testing::NanSensitiveDoubleEq(),
                                                          test::read(call.expected)));
    }
  }
  for (size_t i = 0; i < bnd_op_count(); ++i)
    EXPECT_TRUE(called.contains(bnd_op_name(i))) << bnd_op_signature(i);
}

TEST(COps, DrawAsOftenAsTheyAreAsked) {
  const Tensor ones_row = ones({1, 1000});
  const auto zeros_in = [&](double p) {
    const std::vector<double> values =
        test::read(through_c({"dropout", {ones_row}, {{"p", p}}, {}}));
    return std::count(values.begin(), values.end(), 0.0);
  };
  EXPECT_EQ(zeros_in(0), 0);
  const Tensor kept = through_c({"dropout", {ones_row}, {{"p", 0.5}, {"training", 0}}, {}});
  EXPECT_THAT(test::read(kept), ::testing::Each(1));
  EXPECT_NEAR(static_cast<double>(zeros_in(0.25)), 250, 60);
  const Tensor weights = ones({5});
  std::vector<double> drawn =
      test::read(through_c({"multinomial", {weights}, {{"samples", 5}}, {}}));
  std::sort(drawn.begin(), drawn.end());
  EXPECT_THAT(drawn, ::testing::ElementsAre(0, 1, 2, 3, 4));  // without replacement
  EXPECT_EQ(through_c({"multinomial", {weights}, {{"samples", 9}, {"replacement", 1}}, {}}).numel(),
            9);
}

TEST(COps, KnowOptionsByTheirWholeNames) {
  const bnd_tensor x{some({2, 3}, 1)};
  const bnd_tensor* inputs[] = {&x};
  for (const char* name : {"axis", "axi", "xis", "axis ", ""}) {
    const bnd_option option = Given(name, 0);
    bnd_tensor* result = nullptr;
    const bool is_known = std::string(name) == "axis";
    EXPECT_EQ(bnd_op("softmax", inputs, 1, &option, 1, &result), is_known ? BND_OK : BND_INVALID)
        << name;
    bnd_tensor_free(result);
  }
}

}  // namespace
}  // namespace binade::c
