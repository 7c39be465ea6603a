#include "binade/ops/loss/dpo_loss.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "binade/amp/autocast.h"
#include "binade/base/json.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "support/error_of.h"
#include "support/paths.h"

namespace binade {
namespace {

using ::testing::HasSubstr;

// Log-probabilities of pairs, chosen and rejected.
using Pairs = std::vector<double>;

Tensor pairs_of(const Pairs& values) {
  return tensor(values, Shape{std::ssize(values) / 2, 2}, DType::f32);
}

struct Expected {
  double loss = 0;
  Pairs rewards, gradient;
};

// By the definition, in double: of each answer, what its log-probability adds to the mean.
Expected by_definition(const Pairs& policy, const Pairs& reference, const DpoOptions& options) {
  Expected result;
  const auto count = static_cast<double>(policy.size() / 2);
  const double s = options.label_smoothing;
  for (size_t i = 0; i < policy.size(); i += 2) {
    const double chosen = options.beta * (policy[i] - reference[i]),
                 rejected = options.beta * (policy[i + 1] - reference[i + 1]);
    const long double margin = chosen - rejected;
    const long double right = 1 / (1 + std::exp(-margin));  // the pair's order by the model
    const long double of_right = margin < -40 ? margin : std::log(right),
                      of_wrong = margin > 40 ? -margin : std::log(1 - right);
    result.loss += static_cast<double>(-(1 - s) * of_right - s * of_wrong) / count;
    const auto slope = static_cast<double>((1 - s) * (right - 1) + s * right);
    for (const double sign : {1.0, -1.0})
      result.gradient.push_back(sign * options.beta * slope / count);
    result.rewards.insert(result.rewards.end(), {chosen, rejected});
  }
  return result;
}

const Pairs some_policy = {-3.25, -9, -40.5, -12.25, -7, -7.5, -100, -1},
            some_reference = {-4, -8.5, -38, -13, -7.25, -7, -90, -60};

TEST(DpoLoss, IsItsDefinitionWithItsGradient) {
  for (const DpoOptions options : {DpoOptions{}, DpoOptions{0.5, 0}, DpoOptions{0.3, 0.2}}) {
    const Tensor log_probs = pairs_of(some_policy).set_requires_grad();
    const DpoLoss found = dpo_loss(log_probs, pairs_of(some_reference), options);
    const Expected expected = by_definition(some_policy, some_reference, options);
    found.loss.backward();
    // Rewards are up to 30 and rounded to f32; the loss has a slope of at most 1 in each.
    const double tolerance = 8 * 30 * std::ldexp(1.0, -24);
    EXPECT_NEAR(found.loss.item(), expected.loss, tolerance);
    const auto rewards = to_vector(found.rewards), gradient = to_vector(log_probs.grad());
    ASSERT_EQ(rewards.size(), expected.rewards.size());
    for (size_t i = 0; i < rewards.size(); ++i) {
      EXPECT_NEAR(rewards[i], expected.rewards[i], tolerance) << i;
      EXPECT_NEAR(gradient[i], expected.gradient[i], tolerance) << i;
    }
    EXPECT_FALSE(found.rewards.requires_grad());
  }
}

Pairs numbers(const json::Value& list) {
  Pairs result;
  for (const json::Value& one : list.array()) result.push_back(one.number());
  return result;
}

// dpo.json: the formulas in PyTorch and f64 (tests/golden/dpo.py).
TEST(DpoLoss, IsPyTorchs) {
  const std::string path = test::golden_dir() + "/dpo.json";
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const json::Document document = json::parse(text, {"test", path});
  const auto& cases = document.root().at("cases").array();
  ASSERT_EQ(cases.size(), 5u);
  for (const json::Value& one : cases) {
    const Pairs policy = numbers(one.at("policy")), rewards = numbers(one.at("rewards")),
                gradient = numbers(one.at("gradient"));
    const Tensor log_probs = pairs_of(policy).set_requires_grad();
    const DpoLoss found = dpo_loss(
        log_probs, pairs_of(numbers(one.at("reference"))),
        {.beta = one.at("beta").number(), .label_smoothing = one.at("label_smoothing").number()});
    found.loss.backward();
    // Log-probabilities are down to -300, and beta is at most 2.
    const double tolerance = 8 * 2 * 300 * std::ldexp(1.0, -24);
    EXPECT_NEAR(found.loss.item(), one.at("loss").number(), tolerance);
    const auto found_rewards = to_vector(found.rewards), slopes = to_vector(log_probs.grad());
    for (size_t i = 0; i < policy.size(); ++i) {
      EXPECT_NEAR(found_rewards[i], rewards[i], tolerance) << i;
      EXPECT_NEAR(slopes[i], gradient[i], tolerance) << i;
    }
  }
}

TEST(DpoLoss, OfAnUnchangedModelIsTheLogarithmOfTwo) {
  for (const double smoothing : {0.0, 0.25}) {
    const Tensor log_probs = pairs_of(some_policy);
    const double loss = dpo_loss(log_probs, log_probs, {.label_smoothing = smoothing}).loss.item();
    EXPECT_EQ(loss, static_cast<double>(std::log(2.0F)));
  }
}

TEST(DpoLoss, IsFiniteForMarginsOfAnySize) {
  const Pairs policy = {-1e5, -1, -1, -1e5}, reference = {-1, -1e5, -1e5, -1};
  const Tensor log_probs = pairs_of(policy).set_requires_grad();
  const DpoLoss found = dpo_loss(log_probs, pairs_of(reference), {.beta = 1});
  found.loss.backward();
  // The first pair is wrong by 2e5, the second right by as much.
  EXPECT_NEAR(found.loss.item(), 99999, 0.01);
  EXPECT_EQ(to_vector(log_probs.grad()), (Pairs{-0.5, 0.5, 0, 0}));
}

TEST(DpoLoss, IsInF32WhateverTheAutocast) {
  const Tensor policy = pairs_of(some_policy), reference = pairs_of(some_reference);
  const double expected = dpo_loss(policy, reference).loss.item();
  const amp::Autocast autocast(DType::bf16);
  EXPECT_EQ(dpo_loss(policy, reference).loss.item(), expected);
}

TEST(DpoLoss, RefusesWhatIsNoPairs) {
  const Tensor policy = pairs_of(some_policy);
  EXPECT_THAT(test::error_of([&] { dpo_loss(policy, {}); }),
              HasSubstr("reference: expected f32 [pairs, 2], found none"));
  EXPECT_THAT(test::error_of([&] {
                dpo_loss(zeros({3, 3}), policy);
              }),
              HasSubstr("log_probs: expected f32 [pairs, 2]"));
  EXPECT_THAT(test::error_of([&] { dpo_loss(policy, zeros({3, 2})); }), HasSubstr("reference"));
  EXPECT_THAT(test::error_of([&] { dpo_loss(policy, policy, {.label_smoothing = 0.6}); }),
              HasSubstr("label_smoothing"));
}

}  // namespace
}  // namespace binade
