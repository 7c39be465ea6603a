#include "binade/amp/recipe/layer_facts.h"

#include <gtest/gtest.h>

namespace binade::amp {
namespace {

RoleMap<bool> of_operands(bool input, bool weight, bool gradient) {
  RoleMap<bool> result;
  result[Role::input] = input;
  result[Role::weight] = weight;
  result[Role::gradient] = gradient;
  return result;
}

RoleMap<bool> all_operands(bool value) { return of_operands(value, value, value); }

struct ExpectedFacts {
  const Recipe& recipe;
  Device device;
  bool can_fuse;
  bool serves_both_axes;   // of all three operands
  bool transposes;         // the same
  bool drops_weight_rows;  // where nothing is quantized again
  bool requantizes_if_allowed;
};

// One scale per tensor serves both axes; a GPU reads it transposed along the other. Delayed scales
// are known before the values, which is what fusing and quantizing again take.
const std::vector<ExpectedFacts>& expected_facts() {
  constexpr Device cpu = Device::cpu(), meta = Device::meta(), cuda = Device::cuda();
  static const std::vector<ExpectedFacts> all = {
      {recipes::delayed(), cpu, true, true, false, false, true},
      {recipes::delayed(), meta, true, true, false, false, true},
      {recipes::delayed(), cuda, true, true, true, true, true},
      {recipes::current(), cpu, false, true, false, false, false},
      {recipes::current(), cuda, false, true, true, false, false},
      {recipes::row(), cpu, false, false, false, false, false},
      {recipes::row(), cuda, false, false, false, false, false},
      {recipes::block(), cpu, false, false, false, false, false},
      {recipes::block(), cuda, false, false, false, false, false},
      {recipes::mx(), cpu, false, false, false, false, false},
      {recipes::mx(), cuda, false, false, false, false, false},
      {recipes::mxfp8(), cpu, false, false, false, false, false},
      {recipes::nvfp4(), cpu, false, false, false, false, false},
      {recipes::nvfp4(), meta, false, false, false, false, false}};
  return all;
}

TEST(LayerFacts, OfBuiltInRecipes) {
  for (const ExpectedFacts& expected : expected_facts()) {
    for (const bool recomputes_results : {false, true}) {
      for (const bool feeds_swiglu : {false, true}) {
        SCOPED_TRACE(expected.recipe.name + " on " + to_string(expected.device) +
                     (recomputes_results ? ", recomputing" : ""));
        const LayerFacts facts =
            facts_of(expected.recipe, {.device = expected.device,
                                       .recomputes_results = recomputes_results,
                                       .feeds_swiglu = feeds_swiglu});
        const bool requantizes = recomputes_results && expected.requantizes_if_allowed;
        EXPECT_EQ(facts.can_fuse, expected.can_fuse);
        EXPECT_TRUE(facts.quantizes_input);
        EXPECT_TRUE(facts.serves_both_axes == all_operands(expected.serves_both_axes));
        EXPECT_TRUE(facts.transposes == all_operands(expected.transposes));
        EXPECT_EQ(facts.requantizes, requantizes);
        EXPECT_EQ(facts.drops_weight_rows, expected.drops_weight_rows || requantizes);
        EXPECT_FALSE(facts.stores_result);  // none of them has Role::hidden
      }
    }
  }
}

TEST(LayerFacts, KnowWhenTheResultIsStored) {
  Recipe recipe = recipes::delayed();
  recipe.set_hidden(true);
  EXPECT_TRUE(facts_of(recipe, {.feeds_swiglu = true}).stores_result);
  EXPECT_FALSE(facts_of(recipe, {.feeds_swiglu = false}).stores_result);
  recipe.matmuls.wgrad = false;
  EXPECT_FALSE(facts_of(recipe, {.feeds_swiglu = true}).stores_result);
}

struct PartialFacts {
  Matmuls matmuls;
  // With one scale per tensor, and with one per row.
  bool quantizes_input_of_tensors, quantizes_input_of_rows;
  // On a GPU, with one scale per tensor.
  RoleMap<bool> transposes;
};

// The forward reads input and weight along rows; dgrad reads the weight along columns; wgrad reads
// inputs and gradients along columns.
TEST(LayerFacts, FollowTheMatmuls) {
  const PartialFacts cases[] = {
      {{.forward = true, .dgrad = true, .wgrad = true}, true, true, all_operands(true)},
      {{.forward = true, .dgrad = false, .wgrad = false}, true, true, all_operands(false)},
      {{.forward = false, .dgrad = true, .wgrad = false},
       false,
       false,
       of_operands(false, true, false)},
      {{.forward = false, .dgrad = false, .wgrad = true},
       true,
       false,
       of_operands(true, false, true)},
      {{.forward = true, .dgrad = true, .wgrad = false},
       true,
       true,
       of_operands(false, true, false)},
      {{.forward = true, .dgrad = false, .wgrad = true},
       true,
       true,
       of_operands(true, false, true)},
      {{.forward = false, .dgrad = true, .wgrad = true}, true, false, all_operands(true)},
      {{.forward = false, .dgrad = false, .wgrad = false}, false, false, all_operands(false)}};
  for (const PartialFacts& one : cases) {
    SCOPED_TRACE(std::to_string(one.matmuls.forward) + std::to_string(one.matmuls.dgrad) +
                 std::to_string(one.matmuls.wgrad));
    for (const Recipe* builtin : {&recipes::delayed(), &recipes::current(), &recipes::row()}) {
      SCOPED_TRACE(builtin->name);
      Recipe recipe = *builtin;
      recipe.matmuls = one.matmuls;
      const LayerFacts facts =
          facts_of(recipe, {.device = Device::cuda(), .recomputes_results = true});
      const bool per_tensor = builtin != &recipes::row(), delayed = builtin == &recipes::delayed();
      EXPECT_EQ(facts.quantizes_input,
                per_tensor ? one.quantizes_input_of_tensors : one.quantizes_input_of_rows);
      EXPECT_TRUE(facts.transposes == (per_tensor ? one.transposes : all_operands(false)));
      EXPECT_TRUE(facts.serves_both_axes == all_operands(per_tensor));
      EXPECT_EQ(facts.can_fuse, delayed && one.matmuls.all());
      EXPECT_EQ(facts.requantizes, delayed && one.matmuls.all());
      EXPECT_EQ(facts.drops_weight_rows, delayed && one.matmuls.dgrad);
    }
  }
}

// Each operand by its own scales: inputs per tensor and delayed, weights in blocks, gradients by
// row.
TEST(LayerFacts, FollowEachOperand) {
  Recipe recipe = recipes::row();
  recipe.tensors[Role::input] = TensorRecipe{.source = Delayed{}};
  recipe.tensors[Role::weight]->group = {128, 128};
  const LayerFacts facts = facts_of(recipe, {.device = Device::cuda(), .recomputes_results = true});
  EXPECT_FALSE(facts.can_fuse);
  EXPECT_FALSE(facts.requantizes);
  EXPECT_FALSE(facts.drops_weight_rows);
  EXPECT_TRUE(facts.quantizes_input);
  EXPECT_TRUE(facts.serves_both_axes == of_operands(true, false, false));
  EXPECT_TRUE(facts.transposes == of_operands(true, false, false));
}

// An operand that no matmul reads has no format.
TEST(LayerFacts, TakeAbsentOperands) {
  Recipe recipe = recipes::delayed();
  recipe.matmuls = {.forward = false, .dgrad = false, .wgrad = true};
  recipe.tensors[Role::weight] = {};
  recipe.check();
  const LayerFacts facts = facts_of(recipe, {.device = Device::cuda()});
  EXPECT_TRUE(facts.serves_both_axes == of_operands(true, false, true));
  EXPECT_TRUE(facts.transposes == of_operands(true, false, true));
  EXPECT_FALSE(facts.can_fuse);
  EXPECT_FALSE(facts.drops_weight_rows);
  EXPECT_TRUE(facts.quantizes_input);
}

// One scale serves both axes unless a transform runs along one of them.
TEST(LayerFacts, ATransformNeedsDataOfItsOwn) {
  Recipe recipe = recipes::current();
  recipe.wgrad_hadamard = 16;
  const LayerFacts facts = facts_of(recipe, {});
  EXPECT_FALSE(facts.serves_both_axes[Role::input]);
  EXPECT_FALSE(facts.serves_both_axes[Role::gradient]);
  EXPECT_TRUE(facts.serves_both_axes[Role::weight]);
  recipe.matmuls.wgrad = false;
  EXPECT_TRUE(facts_of(recipe, {}).serves_both_axes[Role::input]);
}

}  // namespace
}  // namespace binade::amp
